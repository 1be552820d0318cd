/*
 * redis_fence.h
 *		Leases of Redis together with fences of PostgreSQL.
 *
 * In a build without hiredis the functions exist and raise 0A000.
 */
#ifndef REDIS_FENCE_H
#define REDIS_FENCE_H

#include "fence_take.h"

typedef enum RedisFenceStatus
{
	REDIS_FENCE_GRANTED,		/* also: renewed, released */
	REDIS_FENCE_HELD,
	REDIS_FENCE_REFUSED,		/* certainly nothing is granted */
	REDIS_FENCE_LOST,			/* also: not held */
	REDIS_FENCE_UNKNOWN
} RedisFenceStatus;

typedef struct RedisFence
{
	FenceGrant	grant;			/* granted: how, row */
	int64		valid_for;		/* granted: microseconds */
	FenceString held_by;		/* held: data NULL if unknown */
	int64		retry_after;	/* held: microseconds; -1 if nobody knows */
	const char *reason;			/* not granted */
} RedisFence;

/* A renewal that Redis has made; valid until then on a clock of its own. */
typedef struct RedisTerm
{
	int64		valid_until;
} RedisTerm;

extern RedisFenceStatus redis_fence_acquire(const FenceClaim *claim,
											FenceWait *wait,
											RedisFence *fence);
extern RedisFenceStatus redis_fence_renew(const char *authority,
										  FenceString resource,
										  FenceString holder, int64 ttl,
										  RedisTerm *term);
extern RedisFenceStatus redis_fence_release(const char *authority,
											FenceString resource,
											FenceString holder);
extern int64 redis_fence_left(const RedisTerm *term);

#endif							/* REDIS_FENCE_H */
