/* The sandbox of a pod: holds its namespaces, reaps what is orphaned into it, ends when told. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) { (void)signal_number; _exit(0); }

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

int main(void) {
    struct sigaction on_end = {.sa_handler = end}, on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGINT, &on_end, NULL) || sigaction(SIGTERM, &on_end, NULL) || sigaction(SIGCHLD, &on_child, NULL))
        return EXIT_FAILURE;
    for (;;) pause();
}
