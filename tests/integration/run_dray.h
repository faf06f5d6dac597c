/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the built `dray` and holds what it said. */
#ifndef TESTS_INTEGRATION_RUN_DRAY_H
#define TESTS_INTEGRATION_RUN_DRAY_H

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kit/mover.h"

namespace run {

struct Json {
  json_t *o;
  explicit Json(const std::string &text) : o(json_loads(text.c_str(), 0, nullptr)) {}
  ~Json() { json_decref(o); }
  Json(const Json &) = delete;
  Json &operator=(const Json &) = delete;
  int64_t number(const char *key) const
  {
    json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
  }
  int64_t number(const char *group, const char *key) const
  {
    return json_integer_value(json_object_get(json_object_get(o, group), key));
  }
  std::string text(const char *key) const
  {
    const char *t = json_string_value(json_object_get(o, key));
    return t ? t : "";
  }
};

struct Result {
  int code = -1; /* 128 + signal when it died of one */
  std::string out, err;
};

/* A directory that goes away. */
class Scratch {
public:
  Scratch()
  {
    char t[] = "/tmp/dray-cli-XXXXXX";
    if (mkdtemp(t))
      dir_ = t;
  }
  ~Scratch()
  {
    pid_t pid = fork();
    if (pid == 0) {
      execlp("rm", "rm", "-rf", "--", dir_.c_str(), nullptr);
      _exit(127);
    }
    waitpid(pid, nullptr, 0);
  }
  std::string path(const std::string &name) const { return dir_ + "/" + name; }

private:
  std::string dir_;
};

/* mover: whose sockets are in the environment (NULL: none). */
inline Result dray(const std::vector<std::string> &args, const kit::Mover *mover = nullptr)
{
  Scratch s;
  std::string out = s.path("out"), err = s.path("err");
  const char *env = getenv("DRAY");
  std::vector<std::string> all = {env ? env : DRAY_PATH};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char *> argv;
  for (auto &a : all)
    argv.push_back(a.data());
  argv.push_back(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    dup2(open("/dev/null", O_RDONLY), 0);
    for (const char *v : {"DRAY_SOCKET", "DRAY_ADMIN", "DRAY_TOKEN"})
      unsetenv(v);
    if (!getenv("DRAYD"))
      setenv("DRAYD", DRAYD_PATH, 1);
    if (mover) {
      setenv("DRAY_SOCKET", mover->socket().c_str(), 1);
      setenv("DRAY_ADMIN", mover->admin().c_str(), 1);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  Result r;
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  r.out = kit::read_file(out);
  r.err = kit::read_file(err);
  return r;
}
} // namespace run
#endif
