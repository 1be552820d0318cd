/*
 * fence_take.c
 *		Takes the lease of one resource, if it is free.
 *
 * Rules: an acquire never waits for a stale holder's open transaction, which
 * has nothing locked here. Each look reads the latest state without a lock,
 * decides, and locks exactly the version it read, without waiting; if that is
 * not the newest any more, the caller looks again. So "held" locks and writes
 * nothing, and whatever has to be waited for is waited for between looks.
 *
 * Time is read from the clock after the lock, never from the transaction's
 * start.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "fence_durable.h"
#include "fence_generation.h"
#include "fence_session.h"
#include "fence_take.h"

static bool
same_holder(const FenceRow *row, const FenceClaim *claim)
{
	return row->holder.data != NULL &&
		fence_string_equal(row->holder, claim->holder);
}

/*
 * fence_take_look
 *
 * Read the resource's row and decide if its lease can be had, and how. Locks
 * nothing. Raises 55000 for an external resource.
 */
FenceTaken
fence_take_look(FenceTable *table, const FenceClaim *claim, FenceGrant *grant)
{
	FenceRow   *row = &grant->row;
	TimestampTz now;

	grant->how = FENCE_NEW;
	if (!fence_table_read(table, claim->resource, row))
	{
		if (!TransactionIdIsValid(row->inserter))
			return FENCE_GRANTED;
		fence_obstacle_lock(&grant->obstacle, table, row);
		return FENCE_HELD;
	}

	fence_generation_refuse_external(claim->resource, row);

	now = GetCurrentTimestamp();
	if (fence_row_live(row, now))
	{
		if (!fence_row_leased_by(row, claim->authority))
		{
			fence_obstacle_elsewhere(&grant->obstacle, row->expires_at - now);
			return FENCE_HELD;
		}
		if (!same_holder(row, claim))
		{
			fence_obstacle_lease(&grant->obstacle, row->expires_at - now);
			return FENCE_HELD;
		}
		grant->how = FENCE_AGAIN;
	}
	else if (!row->released)
		grant->how = FENCE_TAKEOVER;
	return FENCE_GRANTED;
}

/*
 * fence_take_lock
 *
 * Lock the row that fence_take_look() has read. FENCE_GRANTED promises the
 * lease for fence_take_write(), but for a first use, which has no row yet.
 */
FenceTaken
fence_take_lock(FenceTable *table, FenceGrant *grant)
{
	/* For a confirmation, a commit check in progress is in nobody's way. */
	LockTupleMode mode = grant->how == FENCE_AGAIN ?
		LockTupleNoKeyExclusive : LockTupleExclusive;

	if (!grant->row.found)
		return FENCE_GRANTED;

	switch (fence_table_lock_seen(table, &grant->row, mode))
	{
		case FENCE_LOCKED:
			return FENCE_GRANTED;
		case FENCE_WOULD_BLOCK:
			fence_obstacle_lock(&grant->obstacle, table, &grant->row);
			return FENCE_HELD;
		default:
			return FENCE_LOOK_AGAIN;
	}
}

/* Give the live lease to its holder once more, with the same token. */
static void
confirm(FenceTable *table, const FenceClaim *claim, FenceRow *row)
{
	FenceOffer	offer = {0};

	offer.resource = claim->resource;
	offer.token = row->token;
	offer.holder = claim->holder;
	(void) fence_admit(&offer);

	row->renewed_at = GetCurrentTimestamp();
	row->expires_at = row->renewed_at + claim->ttl;
	fence_table_update(table, claim->resource, row);
	fence_commit_durably();
}

/*
 * fence_take_write
 *
 * Take what fence_take_lock() has locked, or a first use if it still is one. A
 * token that was minted before may be below what was used and forgotten since.
 * Raises LF001 if this transaction was admitted with a token that the fence
 * has left, 40001 if it confirms a lease that this transaction's snapshot is
 * too old for.
 */
FenceTaken
fence_take_write(FenceTable *table, const FenceClaim *claim, FenceGrant *grant)
{
	FenceRow   *row = &grant->row;

	if (grant->how == FENCE_AGAIN)
	{
		confirm(table, claim, row);
		return FENCE_GRANTED;
	}

	if (!row->found && !fence_table_lock_absent(table, claim->resource))
		return FENCE_LOOK_AGAIN;

	if (claim->token == 0)
		fence_generation_start(table, claim->resource, row, claim->holder,
							   claim->authority, claim->ttl);
	else if (!fence_generation_rises(claim->resource, row, claim->token))
		return FENCE_LOOK_AGAIN;
	else
	{
		fence_session_before_raise(claim->resource, row);
		fence_generation_write(table, claim->resource, row, claim->token,
							   claim->holder, claim->authority, claim->ttl);
	}
	return FENCE_GRANTED;
}
