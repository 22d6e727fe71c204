/*
 * faults.h - system calls of a program that fail because the test says so.
 *
 * A library put in front of libc (LD_PRELOAD) looks, before each of the calls below, into
 * a file that the test has mapped too. So a fault begins and ends while the program runs,
 * and needs neither a full disk nor a machine without processes. What the calls do when
 * they are let through is libc's own.
 */
#ifndef WEIR_TESTS_SUPPORT_FAULTS_H
#define WEIR_TESTS_SUPPORT_FAULTS_H

#include <stdatomic.h>

enum fault {
	FAULT_ACCEPT, /* accept4 */
	FAULT_FORK,   /* vfork; let through it is a fork */
	FAULT_MEMFD,  /* memfd_create */
	FAULT_PIDFD,  /* pidfd_open */
	FAULT_PIPE,   /* pipe2 */
	FAULT_SOCKET, /* socket */
	FAULT_FILE,   /* open and mkostemp, of files that get no name or a new one */
	FAULT_WRITE,  /* pwrite */
	FAULT_READ,   /* pread */
	FAULT_LOOKUP, /* getaddrinfo, with EAI_AGAIN and not before the fault is over */
	FAULT_DISK,   /* stat of a file *.db, and not before the fault is over */
	FAULT_SHUT,   /* shutdown, which does not fail: it is done, 3 ms late */
	FAULTS_N
};

/* One for each of them, in the file that WEIR_FAULTS names. */
struct fault_cell {
	_Atomic int err;  /* errno to fail with */
	_Atomic int left; /* calls still to fail; below 0: all */
	_Atomic int met;  /* calls that did */
};

/* For process_spec.env and weir_spec.env of the programs to come; the calls go through
 * until told otherwise. Once a test. */
const char *const *faults_env(void);
/* The next times calls fail with err; below 0 all of them, 0 none. */
void faults_set(enum fault which, int err, int times);
/* How many have failed, or, of look-ups, are going to. */
int faults_met(enum fault which);

#endif
