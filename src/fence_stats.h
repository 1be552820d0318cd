/*
 * fence_stats.h
 *		Counting what happens, per database.
 */
#ifndef FENCE_STATS_H
#define FENCE_STATS_H

#include "fence_shared.h"

/* Counted here until the transaction ends; see fence_stats.c. */
extern uint64 fence_stats_pending[FENCE_COUNTERS];
extern bool fence_stats_begun;	/* in this transaction */

extern void fence_stats_begin_slowly(void);

/*
 * fence_stats_begin
 *
 * Called where a transaction first meets lockfence, and may be called again.
 * The first call of a backend looks for the shared memory.
 */
static inline void
fence_stats_begin(void)
{
	if (unlikely(!fence_stats_begun))
		fence_stats_begin_slowly();
}

/* fence_count: one more; fence_stats_begin() was called in the transaction */
static inline void
fence_count(FenceCounter counter)
{
	fence_stats_pending[counter]++;
}

extern bool fence_stats_read(uint64 *counters, TimestampTz *since);
extern bool fence_stats_reset_counters(void);

#endif							/* FENCE_STATS_H */
