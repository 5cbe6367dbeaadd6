// git-server serves bare repositories over smart HTTP and ssh, for tests.
//
// Everybody reads and pushes everything but what is under /private/, which takes basic authentication over HTTP. ssh takes
// a listed public key for all of it. A push to a repository that is not there makes it.
package main

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	root    = "/srv/git"
	backend = "/usr/lib/git-core/git-http-backend"
	secrets = "/etc/git-server"
)

// Settings of git that every command gets, whoever owns the repository's folder.
var gitEnvironment = []string{
	"HOME=/tmp",
	"GIT_PROJECT_ROOT=" + root,
	"GIT_HTTP_EXPORT_ALL=1",
	"GIT_CONFIG_COUNT=4",
	"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	"GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true",
	"GIT_CONFIG_KEY_2=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_2=true",
	"GIT_CONFIG_KEY_3=uploadpack.allowFilter", "GIT_CONFIG_VALUE_3=true",
}

var repositoryName = regexp.MustCompile(`^(/[a-z0-9][a-z0-9._-]*)+\.git$`)

func main() {
	config, err := sshConfig()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", ":2222")
	if err != nil {
		log.Fatal(err)
	}
	go serveSSH(listener, config)
	server := &http.Server{Addr: ":8080", Handler: handler(), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func handler() http.Handler {
	git := &cgi.Handler{Path: backend, Root: "/", Env: gitEnvironment}
	user, password := os.Getenv("PRIVATE_USER"), os.Getenv("PRIVATE_PASSWORD")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			fmt.Fprintln(w, "ok")
			return
		}
		if strings.HasPrefix(path.Clean(r.URL.Path), "/private/") && !allowed(r, user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="private repositories"`)
			http.Error(w, "authentication required", http.StatusUnauthorized)
			return
		}
		if r.URL.Query().Get("service") == "git-receive-pack" {
			if err := ensure(strings.TrimSuffix(r.URL.Path, "/info/refs")); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		git.ServeHTTP(w, r)
	})
}

func allowed(r *http.Request, user, password string) bool {
	givenUser, givenPassword, given := r.BasicAuth()
	sameUser := subtle.ConstantTimeCompare([]byte(givenUser), []byte(user))
	samePassword := subtle.ConstantTimeCompare([]byte(givenPassword), []byte(password))
	return given && password != "" && sameUser&samePassword == 1
}

var making sync.Mutex

// ensure makes the bare repository of that name if it is not there.
func ensure(name string) error {
	if !repositoryName.MatchString(name) {
		return fmt.Errorf("%q is no name for a repository: /NAME.git or /FOLDER/NAME.git, of a-z, 0-9, '.', '_' and '-'", name)
	}
	making.Lock()
	defer making.Unlock()
	folder := filepath.Join(root, name)
	if _, err := os.Stat(filepath.Join(folder, "HEAD")); err == nil {
		return nil
	}
	command := exec.Command("git", "init", "--quiet", "--bare", "--initial-branch=main", folder)
	command.Env = append(os.Environ(), gitEnvironment...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, output)
	}
	return nil
}

func sshConfig() (*ssh.ServerConfig, error) {
	key, err := os.ReadFile(filepath.Join(secrets, "host-key"))
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return nil, err
	}
	listed, err := os.ReadFile(filepath.Join(secrets, "authorized-key"))
	if err != nil {
		return nil, err
	}
	authorized, _, _, _, err := ssh.ParseAuthorizedKey(listed)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
			if subtle.ConstantTimeCompare(offered.Marshal(), authorized.Marshal()) == 1 {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		},
	}
	config.AddHostKey(signer)
	return config, nil
}

func serveSSH(listener net.Listener, config *ssh.ServerConfig) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer connection.Close()
			_, channels, requests, err := ssh.NewServerConn(connection, config)
			if err != nil {
				log.Printf("ssh from %s: %v", connection.RemoteAddr(), err)
				return
			}
			go ssh.DiscardRequests(requests)
			for channel := range channels {
				if channel.ChannelType() != "session" {
					channel.Reject(ssh.UnknownChannelType, "sessions only")
					continue
				}
				if session, requests, err := channel.Accept(); err == nil {
					go serveSession(session, requests)
				}
			}
		}()
	}
}

// serveSession runs the one git command that the client asks for.
func serveSession(session ssh.Channel, requests <-chan *ssh.Request) {
	defer session.Close()
	environment := append(os.Environ(), gitEnvironment...)
	for request := range requests {
		var text struct{ Value string }
		switch request.Type {
		case "env":
			var variable struct{ Name, Value string }
			if ssh.Unmarshal(request.Payload, &variable) == nil && variable.Name == "GIT_PROTOCOL" {
				environment = append(environment, "GIT_PROTOCOL="+variable.Value)
			}
			reply(request, true)
		case "exec":
			err := ssh.Unmarshal(request.Payload, &text)
			reply(request, err == nil)
			status := run(session, text.Value, environment)
			session.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			reply(request, false)
		}
	}
}

func reply(request *ssh.Request, ok bool) {
	if request.WantReply {
		request.Reply(ok, nil)
	}
}

func run(session ssh.Channel, line string, environment []string) uint32 {
	verb, name, _ := strings.Cut(line, " ")
	name = "/" + strings.Trim(name, "'/")
	if verb != "git-upload-pack" && verb != "git-receive-pack" || !repositoryName.MatchString(name) {
		fmt.Fprintf(session.Stderr(), "this server only serves git; it was asked for %q\n", line)
		return 128
	}
	if verb == "git-receive-pack" {
		if err := ensure(name); err != nil {
			fmt.Fprintln(session.Stderr(), err)
			return 128
		}
	}
	command := exec.Command("git", strings.TrimPrefix(verb, "git-"), filepath.Join(root, name))
	command.Env = environment
	command.Stdout, command.Stderr = session, session.Stderr()
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Fprintln(session.Stderr(), err)
		return 128
	}
	go func() {
		io.Copy(input, session)
		input.Close()
	}()
	if err := command.Wait(); err != nil {
		return uint32(max(command.ProcessState.ExitCode(), 1))
	}
	return 0
}
