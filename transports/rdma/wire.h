/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two movers say to each other: fixed structs, little-endian as they lie in memory, one message to a send. Data
 * never goes this way; it goes by one-sided reads and writes into what a message has named.
 *
 * A connection speaks in questions and answers: the one who connects asks, the other answers each question once, in
 * order, with the same id. The first two questions are HELLO and AUTH (auth.h); nothing else is answered before.
 */
#ifndef TRANSPORTS_RDMA_WIRE_H
#define TRANSPORTS_RDMA_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dray/ring_abi.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the messages are little-endian as they lie in memory; this host is not"
#endif

#define WIRE_MAGIC 0x79617264u /* "dray" */
#define WIRE_VERSION 1u
#define WIRE_BYTES_MAX 1024u
#define WIRE_NAME_MAX 64u
#define WIRE_NONCE 32u
#define WIRE_MAC 32u
#define WIRE_DEVS 4u     /* verbs devices of one side that a piece of memory is registered with */
#define WIRE_SEGS_MAX 8u /* pieces of one cell */
#define WIRE_LENT_MAX 24u
#define WIRE_WINDOW 16u /* questions that may be open at a time */
#define WIRE_CELL_MAX ((uint64_t)1 << 40)

/* 0 is no type. Odd ones are questions, even ones answers. */
enum wire_type {
  WIRE_HELLO = 1,
  WIRE_CHALLENGE = 2,
  WIRE_AUTH = 3,
  WIRE_WELCOME = 4,
  WIRE_LEND = 5, /* memory for the asker's own use, zeroed */
  WIRE_LENT = 6,
  WIRE_SEGS = 7, /* where it is */
  WIRE_SEGMENTS = 8,
  WIRE_WIPE = 9,     /* a piece of it is to read as zero again */
  WIRE_DONE = 10,    /* the answer that is only a reason */
  WIRE_PING = 11,    /* keeps what is lent and leased */
  WIRE_RESOLVE = 13, /* a cell that is there: where to read it */
  WIRE_RESOLVED = 14,
  WIRE_RELEASE = 15,
  WIRE_RESERVE = 17, /* room for a new cell: where to write it */
  WIRE_RESERVED = 18,
  WIRE_COMMIT = 19, /* the bytes are there */
  WIRE_ABANDON = 21,
  WIRE_STAT = 23,
  WIRE_FACTS = 24,
};
#define WIRE_TYPES 25u

struct wire_head {
  uint32_t magic;
  uint16_t version;
  uint8_t type; /* enum wire_type */
  uint8_t zero;
  uint32_t bytes; /* of the whole message */
  uint32_t epoch; /* the answering side's: in a question, the one the asker knows (HELLO: 0) */
  uint64_t id;    /* of the question, never 0 */
};

struct wire_hello {
  struct wire_head h;
  uint8_t nonce[WIRE_NONCE];
  char name[WIRE_NAME_MAX]; /* the asking node */
  uint64_t instance;        /* of the asking worker: another one owns nothing of what this one was lent */
};
struct wire_challenge {
  struct wire_head h;
  uint8_t nonce[WIRE_NONCE];
  char name[WIRE_NAME_MAX];
  uint8_t keyed; /* a key is wanted, and will be shown */
  uint8_t zero[7];
};
struct wire_auth {
  struct wire_head h;
  uint8_t mac[WIRE_MAC];
};
struct wire_welcome {
  struct wire_head h;
  uint8_t mac[WIRE_MAC];
  uint64_t session;
  uint64_t cell_max;
  uint32_t lease_ms; /* what is lent is kept so long after the last question */
  uint32_t zero;
};

struct wire_lend {
  struct wire_head h;
  uint64_t lease; /* to go on with, 0: new */
  uint64_t bytes;
};
struct wire_lent {
  struct wire_head h;
  uint16_t reason; /* enum dray_reason */
  uint16_t zero[3];
  uint64_t lease; /* the one asked for, or another when that is gone */
  uint64_t bytes;
  uint32_t segs;
  uint32_t zero2;
};
struct wire_segs {
  struct wire_head h;
  uint64_t lease;
  uint32_t first;
  uint32_t zero;
};
/* A piece of registered memory. */
struct wire_seg {
  uint64_t addr;
  uint64_t bytes;
  uint32_t rkey[WIRE_DEVS]; /* by the answering side's device */
};
struct wire_segments {
  struct wire_head h;
  uint16_t reason;
  uint16_t n;
  uint32_t zero;
  struct wire_seg seg[WIRE_LENT_MAX];
};
struct wire_wipe {
  struct wire_head h;
  uint64_t lease, off, bytes;
};
struct wire_done {
  struct wire_head h;
  uint16_t reason;
  uint16_t zero[3];
};
struct wire_ping {
  struct wire_head h;
};

/* Who asks for a cell, as the asking mover admitted it. */
struct wire_who {
  char tenant[WIRE_NAME_MAX];
  char agent[WIRE_NAME_MAX]; /* "": none */
};
struct wire_resolve {
  struct wire_head h;
  uint8_t key[16];
  struct wire_who who;
  struct dray_key mkey; /* all zero: none */
  uint8_t move;         /* 1: to have it, not to read it: the gate asks another question */
  uint8_t zero[7];
};
struct wire_resolved {
  struct wire_head h;
  uint16_t reason;
  uint8_t scope, taint, has_crc, n;
  uint16_t zero;
  uint64_t handle; /* for RELEASE */
  uint64_t len;
  uint32_t crc;
  uint32_t lease_ms; /* the bytes stay so long without a RELEASE */
  struct wire_seg seg[WIRE_SEGS_MAX];
  struct dray_key mkey;
};
struct wire_handle { /* RELEASE, ABANDON */
  struct wire_head h;
  uint64_t handle;
};
struct wire_reserve {
  struct wire_head h;
  uint8_t key[16];
  struct wire_who who;
  struct dray_key mkey;
  uint64_t len;
  uint8_t scope, taint, no_replace, zero[5];
};
struct wire_reserved {
  struct wire_head h;
  uint16_t reason;
  uint16_t n;
  uint32_t lease_ms;
  uint64_t handle;
  struct wire_seg seg[WIRE_SEGS_MAX];
};
struct wire_commit {
  struct wire_head h;
  uint64_t handle;
  uint64_t len;
  uint32_t crc; /* of the bytes that were written: checked against what arrived */
  uint32_t zero;
};
struct wire_facts {
  struct wire_head h;
  uint16_t reason;
  uint8_t scope, taint, has_crc, tier;
  uint16_t zero;
  uint64_t len;
  uint32_t crc;
  uint32_t zero2;
};

/* What a connection brings with it (private data of the connection manager: at most 56 bytes). lane WIRE_CONTROL: the
   one that asks; else it only carries data, for a session that is already there. */
#define WIRE_CONTROL 0xffu
struct wire_join {
  uint32_t magic;
  uint16_t version;
  uint8_t lane, path;
  uint64_t session; /* 0 for the first */
  uint32_t serial;  /* rises with each connection of the session: an old one cannot be played again */
  uint32_t zero;
  uint8_t mac[WIRE_MAC];
};
struct wire_joined {
  uint32_t magic;
  uint16_t version;
  uint8_t dev; /* which of the answering side's devices it came in by: index of rkey */
  uint8_t zero;
};

union wire_msg {
  struct wire_head h;
  struct wire_hello hello;
  struct wire_challenge challenge;
  struct wire_auth auth;
  struct wire_welcome welcome;
  struct wire_lend lend;
  struct wire_lent lent;
  struct wire_segs segs;
  struct wire_segments segments;
  struct wire_wipe wipe;
  struct wire_done done;
  struct wire_ping ping;
  struct wire_resolve resolve;
  struct wire_resolved resolved;
  struct wire_handle handle;
  struct wire_reserve reserve;
  struct wire_reserved reserved;
  struct wire_commit commit;
  struct wire_facts facts;
  uint8_t room[WIRE_BYTES_MAX];
};

#define WIRE_SIZE(t, n) static_assert(sizeof(struct t) == (n), #t)
WIRE_SIZE(wire_head, 24);
WIRE_SIZE(wire_hello, 24 + 32 + 64 + 8);
WIRE_SIZE(wire_challenge, 24 + 32 + 64 + 8);
WIRE_SIZE(wire_auth, 56);
WIRE_SIZE(wire_welcome, 80);
WIRE_SIZE(wire_lend, 40);
WIRE_SIZE(wire_lent, 56);
WIRE_SIZE(wire_segs, 40);
WIRE_SIZE(wire_seg, 32);
WIRE_SIZE(wire_segments, 32 + 24 * 32);
WIRE_SIZE(wire_wipe, 48);
WIRE_SIZE(wire_done, 32);
WIRE_SIZE(wire_resolve, 24 + 16 + 128 + 6 * DRAY_AXIS_MAX + 8);
WIRE_SIZE(wire_resolved, 56 + 8 * 32 + 6 * DRAY_AXIS_MAX);
WIRE_SIZE(wire_handle, 32);
WIRE_SIZE(wire_reserve, 24 + 16 + 128 + 6 * DRAY_AXIS_MAX + 16);
WIRE_SIZE(wire_reserved, 40 + 8 * 32);
WIRE_SIZE(wire_commit, 48);
WIRE_SIZE(wire_facts, 48);
WIRE_SIZE(wire_join, 56);
WIRE_SIZE(wire_joined, 8);
static_assert(sizeof(union wire_msg) == WIRE_BYTES_MAX, "every message fits");

/* Bytes of a message of that type, 0: there is none such. */
uint32_t wire_bytes(unsigned type);
/* A zeroed message of that type with its head filled. */
void wire_begin(union wire_msg *m, unsigned type, uint32_t epoch, uint64_t id);
/* Is what came a whole message of a known type: magic, version, length, zeros, strings, counts, sums. The n bytes may
   be anybody's. question: which half of the types may come. NULL, or what is wrong with it (static text). */
const char *wire_check(const void *p, size_t n, bool question);
/* The same for the private data of a connection (it may come padded). */
const char *wire_join_check(const void *p, size_t n);
const char *wire_joined_check(const void *p, size_t n);
/* Sum of the pieces; 0 when one is empty, wraps, or they are more than WIRE_CELL_MAX. */
uint64_t wire_segs_bytes(const struct wire_seg *seg, uint32_t n);
#endif
