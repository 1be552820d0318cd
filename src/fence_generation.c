/*
 * fence_generation.c
 *		Starts a new generation: mints its token and raises the fence to it.
 *
 * Rule: the resource's row is locked before the token is minted, and what this
 * transaction wrote under an earlier token is judged before the row is written
 * and the transaction admitted. All of it is rolled back together, but for the
 * token, which is never given again. Under the lock of a row, or of the first use
 * of a resource, nothing that becomes known later concerns it.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "fence_durable.h"
#include "fence_generation.h"
#include "fence_prefix.h"
#include "fence_session.h"
#include "fence_token.h"
#include "fence_wakeup.h"

/*
 * fence_generation_refuse_external
 *
 * PostgreSQL cannot mint tokens for a resource whose tokens come from
 * elsewhere: they would not be in order with those.
 */
void
fence_generation_refuse_external(FenceString resource, const FenceRow *row)
{
	if (row->found && !row->issued)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tokens of resource \"%.*s\" are external",
						resource.len, resource.data),
				 errdetail("Its fence, %lld, was set by a token that this database did not issue.",
						   (long long) row->token),
				 errhint("An administrator can let this database issue its tokens from now on with fence_adopt.")));
}

/* The highest token that is known of a resource; it may have no row any more. */
static int64
known_token(FenceString resource, const FenceRow *row)
{
	FenceState	absent;

	if (row->found)
		return row->token;
	fence_prefix_lookup(resource, &absent);
	return absent.floor;
}

/* fence_generation_rises: is the token above all that are known of a resource? */
bool
fence_generation_rises(FenceString resource, const FenceRow *row, int64 token)
{
	return token > known_token(resource, row);
}

/*
 * fence_generation_mint
 *
 * A token above all that are known of the resources, whatever was done to the
 * sequence. Their rows are locked; what has no row may be used and forgotten
 * until it is locked, too. The first token may have been minted just before
 * fence_prune moved issuing past a fence that it has forgotten. If the second
 * one does not rise either, LF005.
 */
int64
fence_generation_mint(const FenceString *resources, const FenceRow *const *rows,
					  int count)
{
	int64		first = fence_token_mint();
	int64		token = first;

	for (int i = 0; i < count; i++)
	{
		int64		known = known_token(resources[i], rows[i]);

		if (token > known)
			continue;
		if (token == first)
			token = fence_token_mint();
		if (token <= known)
			fence_token_report_behind(token, known);
	}
	return token;
}

/*
 * fence_generation_write
 *
 * Raise the fence to a token that rises. The caller holds the row locked FOR
 * UPDATE, or holds the first use of an absent resource (row->found says which),
 * and has asked fence_session_before_raise(). With an authority the generation
 * has a lease of ttl microseconds, counted from here. The new state is in *row
 * afterwards.
 */
void
fence_generation_write(FenceTable *table, FenceString resource, FenceRow *row,
					   int64 token, FenceString holder, const char *authority,
					   int64 ttl)
{
	Assert(!row->found || token > row->token);
	fence_row_raise(row, token, true, holder);
	if (authority != NULL)
	{
		TimestampTz now = GetCurrentTimestamp();

		fence_row_set_lease(row, authority, now, now + ttl);
	}

	if (row->found)
		fence_table_update(table, resource, row);
	else
		fence_table_insert(table, resource, row);
	fence_session_raised(resource, row);
	fence_wakeup_at_end(resource);
	fence_commit_durably();
}

/*
 * fence_generation_start
 *
 * Mint a token and raise the fence to it, in the state that
 * fence_generation_write() asks for. Raises LF001 if this transaction was
 * admitted with a token that the fence has left, LF005 if the sequence is behind
 * what is known of the resource.
 */
void
fence_generation_start(FenceTable *table, FenceString resource, FenceRow *row,
					   FenceString holder, const char *authority, int64 ttl)
{
	int64		token;

	fence_session_before_raise(resource, row);
	token = fence_generation_mint(&resource, (const FenceRow *const *) &row, 1);
	fence_generation_write(table, resource, row, token, holder, authority, ttl);
}
