/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/drill_alert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stage.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define START_MS 30000u
#define LOOK_MS 200

uint16_t drill_port(void)
{
  CLEAN_FD s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  if (s < 0 || bind(s, (struct sockaddr *)&a, n) < 0 || getsockname(s, (struct sockaddr *)&a, &n) < 0)
    return 0;
  return ntohs(a.sin_port);
}

/* The answer to a GET holds that text. */
static bool web_has(uint16_t port, const char *path, const char *what)
{
  CLEAN_FD s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
  const struct timeval limit = {.tv_sec = 5};
  char text[65536], head[256];
  size_t n = 0;
  if (s < 0)
    return false;
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  int k = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
  if (connect(s, (struct sockaddr *)&a, sizeof a) < 0 || send(s, head, (size_t)k, MSG_NOSIGNAL) != k)
    return false;
  for (ssize_t got; n + 1 < sizeof text && (got = recv(s, text + n, sizeof text - 1 - n, 0)) > 0;)
    n += (size_t)got;
  text[n] = 0;
  return strstr(text, what) != NULL;
}

static bool web_until(struct drill_alert *a, const char *path, const char *what, unsigned ms)
{
  uint64_t until = stage_now_ns() + ms * 1000000ull;
  do {
    if (web_has(a->web, path, what))
      return true;
    if (waitpid(a->pid, NULL, WNOHANG) != 0) {
      a->pid = 0; /* it died: its number may be another's soon */
      return false;
    }
    poll(NULL, 0, LOOK_MS);
  } while (stage_now_ns() < until);
  return false;
}

static void prometheus(const struct drill_alert *a)
{
  char config[96], data[96], listen[64], log[96];
  snprintf(config, sizeof config, "--config.file=%s/p.yml", a->dir);
  snprintf(data, sizeof data, "--storage.tsdb.path=%s/tsdb", a->dir);
  snprintf(listen, sizeof listen, "--web.listen-address=127.0.0.1:%u", a->web);
  snprintf(log, sizeof log, "%s/log", a->dir);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
    _exit(127);
  execlp("prometheus", "prometheus", config, data, listen, (char *)NULL);
  _exit(127);
}

void drill_alert_open(struct drill_alert *a, uint16_t metrics, const char *rules)
{
  char path[96];
  *a = (struct drill_alert){.web = drill_port(), .dir = "/tmp/dray-alert-XXXXXX"};
  char *full = rules ? realpath(rules, NULL) : NULL;
  if (!full) {
    snprintf(a->why, sizeof a->why, "no alert rules (--alerts FILE; deploy/prometheus/dray.rules.yml)");
    return;
  }
  if (!a->web || !metrics || !mkdtemp(a->dir)) {
    snprintf(a->why, sizeof a->why, "no port or directory for it: %s", strerror(errno));
    free(full);
    return;
  }
  snprintf(path, sizeof path, "%s/p.yml", a->dir);
  FILE *f = fopen(path, "we");
  if (f) {
    fprintf(f,
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: ['%s']\nscrape_configs:\n"
            "  - job_name: dray\n    static_configs: [{targets: ['127.0.0.1:%u']}]\n",
            full, metrics);
    fclose(f);
  }
  free(full);
  a->pid = fork();
  if (a->pid == 0)
    prometheus(a);
  if (a->pid < 0 || !web_until(a, "/api/v1/query?query=dray_tenant_refused_total", "QUOTA_EXCEEDED", START_MS)) {
    drill_alert_close(a);
    snprintf(a->why, sizeof a->why, "no prometheus that runs here (apt install prometheus)");
  }
}

bool drill_alert_fires(struct drill_alert *a, const char *alert, unsigned ms)
{
  char path[160];
  snprintf(path, sizeof path, "/api/v1/query?query=ALERTS%%7Balertname=%%22%s%%22,alertstate=%%22firing%%22%%7D",
           alert);
  return a->pid && web_until(a, path, alert, ms);
}

void drill_alert_close(struct drill_alert *a)
{
  if (a->pid > 0) {
    kill(a->pid, SIGTERM);
    bool dead = false;
    for (int i = 0; i < 50 && !(dead = waitpid(a->pid, NULL, WNOHANG) != 0); i++)
      poll(NULL, 0, 100);
    if (!dead) {
      kill(a->pid, SIGKILL);
      waitpid(a->pid, NULL, 0);
    }
  }
  if (a->dir[0] && !strstr(a->dir, "XXXXXX"))
    stage_remove(a->dir);
  a->pid = 0;
  a->dir[0] = 0;
}
