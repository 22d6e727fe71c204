/*
 * base/thread.h - how weir starts a thread.
 */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create(), with every signal blocked in the new thread: signals are the main
 * thread's, and whoever sends one should not interrupt another. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
