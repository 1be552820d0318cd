/*
 * fence_shared.h
 *		Layout of lockfence's shared memory.
 *
 * Rules: its size is fixed, whatever the settings are, so that every backend
 * asks for the same. A change of the layout changes the name. Nothing that
 * decides about a token is kept here; without it all is enforced alike.
 */
#ifndef FENCE_SHARED_H
#define FENCE_SHARED_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "lockfence.h"


#define FENCE_MAX_DATABASES		64
#define FENCE_SHARDS			16
#define FENCE_MAX_REJECTIONS	1024
#define FENCE_MAX_ACTIVITY		4096
#define FENCE_WAIT_CHANNELS		64

/* Counters of a database; the order is that of lockfence.stats. */
typedef enum FenceCounter
{
	FENCE_COUNT_CHECKS,
	FENCE_COUNT_ROWS,
	FENCE_COUNT_ACCEPTED,
	FENCE_COUNT_STALE_STATEMENT,
	FENCE_COUNT_STALE_COMMIT,
	FENCE_COUNT_MISSING,
	FENCE_COUNT_UNISSUED_STATEMENT,
	FENCE_COUNT_UNISSUED_COMMIT,
	FENCE_COUNT_CONFLICT,
	FENCE_COUNT_OBSERVED,
	FENCE_COUNT_GRANTED_NEW,
	FENCE_COUNT_GRANTED_TAKEOVER,
	FENCE_COUNT_GRANTED_AGAIN,
	FENCE_COUNT_HELD,
	FENCE_COUNT_REFUSED,
	FENCE_COUNT_UNKNOWN,
	FENCE_COUNT_RENEWED,
	FENCE_COUNT_LOST,
	FENCE_COUNT_RENEW_UNKNOWN,
	FENCE_COUNT_RELEASES,
	FENCE_COUNT_OUTLIVED,
	FENCE_COUNT_ISSUED,
	FENCE_COUNT_ONCE_ACCEPTED,
	FENCE_COUNT_ONCE_REPEATED,
	FENCE_COUNT_BYPASSES,
	FENCE_COUNT_EVICTIONS,
	FENCE_COUNT_REDIS_ERRORS,
	FENCE_COUNTERS
} FenceCounter;

/* Backends spread over the shards, so that they do not fight for a line. */
typedef struct FenceShard
{
	pg_atomic_uint64 counters[FENCE_COUNTERS];
	char		pad[PG_CACHE_LINE_SIZE -
					(FENCE_COUNTERS * sizeof(uint64)) % PG_CACHE_LINE_SIZE];
} FenceShard;

typedef struct FenceDatabase
{
	Oid			database;		/* InvalidOid: free */
	pg_atomic_uint64 since;		/* TimestampTz */
	FenceShard	shards[FENCE_SHARDS];
} FenceDatabase;

/* A text of bounded length, without a NUL. */
typedef struct FenceText
{
	uint16		len;
	bool		known;
	char		data[FENCE_MAX_RESOURCE];
} FenceText;

StaticAssertDecl(FENCE_MAX_HOLDER <= FENCE_MAX_RESOURCE,
				 "a holder must fit where a resource does");

/* One refusal. */
typedef struct FenceRejection
{
	TimestampTz at;
	Oid			database;
	Oid			role;
	Oid			target;
	int			pid;
	int			sqlstate;
	bool		at_commit;
	bool		observed;
	int64		token;
	int64		fence;
	char		application[NAMEDATALEN];
	char		client[64];		/* numeric address, empty if local */
	char		command[32];
	FenceText	resource;
	FenceText	holder;
	FenceText	fence_holder;
} FenceRejection;

/* A place for a refusal; see fence_journal.c. */
typedef struct FenceJournalPlace
{
	pg_atomic_uint64 state;		/* 0 while it was never used */
	FenceRejection rejection;
} FenceJournalPlace;

/*
 * One admission of an open or prepared transaction. Only its owner writes it,
 * and keeps "changes" odd while it does; readers look again.
 */
typedef struct FenceActivity
{
	pg_atomic_uint32 owner;		/* pid, or one of those below; 0: free */
	pg_atomic_uint32 changes;
	TransactionId xid;			/* of a prepared transaction */
	Oid			database;
	Oid			role;
	TimestampTz since;
	int64		token;
	FenceText	resource;
} FenceActivity;

#define FENCE_ACTIVITY_PREPARED	PG_UINT32_MAX
#define FENCE_ACTIVITY_TAKEN	(PG_UINT32_MAX - 1) /* shows nothing yet */

typedef struct FenceShared
{
	int			tranche;		/* of the lock */
	LWLock		databases_lock; /* exclusive to give a database its place */
	FenceDatabase databases[FENCE_MAX_DATABASES];

	pg_atomic_uint64 journal_next;	/* number of the next refusal */
	FenceJournalPlace journal[FENCE_MAX_REJECTIONS];

	FenceActivity activity[FENCE_MAX_ACTIVITY];
	ConditionVariable channels[FENCE_WAIT_CHANNELS];
} FenceShared;

extern void fence_shared_preload(void);
extern FenceShared *fence_shared(void);
extern FenceShared *fence_shared_needed(void);

/* fence_text_set: keep a copy of a string that is short enough already */
static inline void
fence_text_set(FenceText *text, FenceString string)
{
	text->known = string.data != NULL;
	text->len = text->known ? Min(string.len, FENCE_MAX_RESOURCE) : 0;
	if (text->known)
		memcpy(text->data, string.data, text->len);
}

static inline FenceString
fence_text_get(const FenceText *text)
{
	FenceString string;

	string.data = text->known ? text->data : NULL;
	string.len = text->len;
	return string;
}

#endif							/* FENCE_SHARED_H */
