/*
 * fence_durable.h
 *		Commits that a crash or a failover must not lose.
 */
#ifndef FENCE_DURABLE_H
#define FENCE_DURABLE_H

extern void fence_commit_durably(void);

#endif							/* FENCE_DURABLE_H */
