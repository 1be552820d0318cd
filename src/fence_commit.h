/*
 * fence_commit.h
 *		The check of a transaction's admissions at its commit.
 */
#ifndef FENCE_COMMIT_H
#define FENCE_COMMIT_H

#include "lockfence.h"

extern void fence_commit_init(void);
extern void fence_commit_to_front(void);
extern bool fence_commit_checked(void);

#endif							/* FENCE_COMMIT_H */
