/* The only program of an image without a shell. `echo WORD...` prints the words, `echo exit N` ends with status N, and
   without an argument it waits until it is told to end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(int signal_number) { (void)signal_number; _exit(0); }

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "exit") == 0) return atoi(words[2]);
    for (int i = 1; i < count; i++) printf("%s%c", words[i], i + 1 < count ? ' ' : '\n');
    if (count > 1) return EXIT_SUCCESS;
    signal(SIGINT, end);
    signal(SIGTERM, end);
    for (;;) pause();
}
