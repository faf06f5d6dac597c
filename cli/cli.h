/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share. Each subcommand is one file with one entry point and returns the process's exit code. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <dray/dray.h>

/* Exit codes, as USERS.md has them. */
enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_DEGRADED = 3, EXIT_REFUSED = 4 };

int cli_status(int argc, char **argv);
int cli_tiers(int argc, char **argv);
int cli_tier(int argc, char **argv);
int cli_cells(int argc, char **argv);
int cli_tenants(int argc, char **argv);
int cli_usage_report(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_drill(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_put(int argc, char **argv);
int cli_get(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_version(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_calibrate(int argc, char **argv);
int cli_demo(int argc, char **argv);

/* The options that every command takes. NULL: libdray's own precedence (DRAY_* then default) decides. */
struct cli_options {
  const char *socket, *admin, *agent, *token;
  bool json;
};
enum { CLI_SOCKET = 0x100, CLI_ADMIN, CLI_AGENT, CLI_TOKEN, CLI_JSON, CLI_HELP };
#define CLI_OPTIONS                                                                                                    \
  {"socket", required_argument, NULL, CLI_SOCKET}, {"admin", required_argument, NULL, CLI_ADMIN},                      \
      {"agent", required_argument, NULL, CLI_AGENT}, {"token", required_argument, NULL, CLI_TOKEN},                    \
      {"json", no_argument, NULL, CLI_JSON}, {"help", no_argument, NULL, CLI_HELP},                                    \
  {                                                                                                                    \
    NULL, 0, NULL, 0                                                                                                   \
  }
#define CLI_OPTIONS_HELP                                                                                               \
  "  --socket PATH, --admin PATH   where the mover listens (DRAY_SOCKET, DRAY_ADMIN)\n"                                \
  "  --agent NAME, --token SECRET  who asks (token: DRAY_TOKEN)\n"                                                     \
  "  --json                        for scripts\n"
/* True when c was one of CLI_OPTIONS but --help. */
bool cli_option(struct cli_options *o, int c, const char *arg);
/* A command of nothing but CLI_OPTIONS. EXIT_OK to go on, else what to return is in *ret_code and this is false. */
bool cli_plain(int argc, char **argv, const char *usage, struct cli_options *o, int *ret_code);

/* Asks the mover; NULL after a message on stderr (and *ret_code set). The caller decrefs. args: more members, stolen;
 * may be NULL. */
json_t *cli_ask(const char *admin, const char *verb, json_t *args, int *ret_code);
/* A member of an answer: a number that is never below 0, a text that is never NULL. */
uint64_t cli_number(const json_t *o, const char *key);
const char *cli_text(const json_t *o, const char *key);
/* The rules of an answer as a table, and how the last reload went. True when one is in force. */
bool cli_print_rules(const json_t *a);
/* Those that are asked, and how many ask; nothing where there are none. */
void cli_print_peers(const json_t *a);
/* Prints JSON as it is. */
void cli_print_json(const json_t *o);
/* Takes the reference, adds schema_version, prints. */
void cli_print_new(json_t *o);
/* A counter as JSON has it. */
json_t *cli_u64(uint64_t v);
/* "usage: ..." on stderr; EXIT_USAGE. */
int cli_usage(const char *text);
/* A usage error in words: "dray put: --cell: ...", then where help is. EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_wrong(const char *command, const char *fmt, ...);
/* On stdout; EXIT_OK. */
int cli_help(const char *text);
/* People's terminal? (progress) */
bool cli_tty(void);
/* Colours on stdout? NO_COLOR is honoured. */
bool cli_color(void);

/* A session; NULL after a message on stderr. */
struct dray *cli_session(const struct cli_options *o, uint32_t entries, uint32_t items);
/* A registered region; -errno after a message on stderr. */
int cli_region(struct dray *d, uint64_t bytes, struct dray_region *ret_region);
/* Submits what was prepared and waits for its one completion; notices are passed over. -errno. */
int cli_finish(struct dray *d, int timeout_ms, struct dray_cqe *ret_cqe);
/* The exit code for how a directive ended. */
int cli_exit_of(unsigned reason);
/* 32 hex digits. */
void cli_hex(const uint8_t key[16], char ret_text[33]);
#endif
