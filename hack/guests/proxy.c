/*
 * Starts kube-proxy without the rules of its predecessor. With nft 1.0.6 and Linux 6.18, a kube-proxy that finds the maps
 * of an earlier process in its table leaves them empty, so that no Service answers until its next start.
 */
#include <sys/wait.h>
#include <unistd.h>

static void delete_table(char *family) {
  char *arguments[] = {"nft", "delete", "table", family, "kube-proxy", 0};
  pid_t child = fork();
  if (child == 0) {
    /* That there is no such table is no error, so nft must not write about it. */
    close(2);
    execv("/usr/sbin/nft", arguments);
    _exit(1);
  }
  waitpid(child, 0, 0);
}

int main(int count, char **arguments) {
  (void)count;
  delete_table("ip");
  delete_table("ip6");
  execv("/usr/local/libexec/kube-proxy", arguments);
  return 127;
}
