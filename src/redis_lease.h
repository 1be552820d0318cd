/*
 * redis_lease.h
 *		A lease in Redis: one key, whose whole value is the holder.
 */
#ifndef REDIS_LEASE_H
#define REDIS_LEASE_H

#include "redis_route.h"

typedef enum RedisLeaseAnswer
{
	REDIS_LEASE_NEW,			/* take */
	REDIS_LEASE_AGAIN,			/* take: this holder had it already */
	REDIS_LEASE_HELD,			/* take: see held_by, remaining */
	REDIS_LEASE_YES,			/* prolong, give back */
	REDIS_LEASE_NO,				/* prolong, give back: not this holder's */
	REDIS_LEASE_REFUSED,		/* any: nothing was done, see reason */
	REDIS_LEASE_UNKNOWN			/* any: see reason */
} RedisLeaseAnswer;

typedef struct RedisLease
{
	const RedisServer *server;
	FenceString key;
	FenceString holder;

	/* what the last answer says */
	bool		ours;			/* the call has taken it, not only found it */
	int64		valid_until;	/* on redis_clock() */
	FenceString held_by;		/* data NULL: cannot be shown */
	int64		remaining;		/* microseconds; -1: the key has no expiry */
	const char *reason;
} RedisLease;

extern void redis_lease_begin(RedisLease *lease, const RedisServer *server,
							  FenceString resource, FenceString holder);
extern RedisLeaseAnswer redis_lease_take(RedisLease *lease, int64 ttl);
extern RedisLeaseAnswer redis_lease_prolong(RedisLease *lease, int64 ttl);
extern RedisLeaseAnswer redis_lease_give_back(RedisLease *lease);
extern int64 redis_lease_left(const RedisLease *lease);

#endif							/* REDIS_LEASE_H */
