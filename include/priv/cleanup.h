/* SPDX-License-Identifier: Apache-2.0 */
/* Release tied to scope; ownership leaves in one visible line at the end (take_fd, take_ptr). */
#ifndef PRIV_CLEANUP_H
#define PRIV_CLEANUP_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEAN(f) __attribute__((cleanup(f)))

static inline void close_fd(int *fd)
{
  if (*fd >= 0) {
    int e = errno;
    close(*fd);
    errno = e;
    *fd = -1;
  }
}
static inline void free_ptr(void *p)
{
  void **pp = p;
  free(*pp);
  *pp = NULL;
}
static inline void close_file(FILE **f)
{
  if (*f) {
    fclose(*f);
    *f = NULL;
  }
}
static inline int take_fd(int *fd)
{
  int v = *fd;
  *fd = -1;
  return v;
}
static inline void *take_ptr_(void **p)
{
  void *v = *p;
  *p = NULL;
  return v;
}
#define take_ptr(p) ((__typeof__(*(p)))take_ptr_((void **)(p)))

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *m)
{
  pthread_mutex_lock(m);
  return m;
}
static inline void scope_unlock(pthread_mutex_t **m)
{
  if (*m)
    pthread_mutex_unlock(*m);
}
#define CLEAN_FD CLEAN(close_fd) int
#define CLEAN_PTR CLEAN(free_ptr)
#define CLEAN_FILE CLEAN(close_file) FILE
/* Holds the mutex until the end of the scope. */
#define LOCKED__(m, n) CLEAN(scope_unlock) __attribute__((unused)) pthread_mutex_t *scope_lock_##n = scope_lock(m)
#define LOCKED_(m, n) LOCKED__(m, n)
#define LOCKED(m) LOCKED_(m, __LINE__)
#endif
