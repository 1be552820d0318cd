/*
 * fence_admin.c
 *		SQL entries for administrators: fence_override, fence_adopt and
 *		fence_accept_external.
 *
 * Rule: who may call is decided by the EXECUTE right alone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "fence_durable.h"
#include "fence_entry.h"
#include "fence_generation.h"
#include "fence_param.h"
#include "fence_prefix.h"
#include "fence_session.h"
#include "fence_token.h"

PG_FUNCTION_INFO_V1(fence_override);
PG_FUNCTION_INFO_V1(fence_adopt);
PG_FUNCTION_INFO_V1(fence_accept_external);

/* Lock the external fence of a resource, or say why there is none. */
static void
lock_external(FenceTable *table, FenceString resource, FenceRow *row)
{
	row->found = false;
	if (fence_table_lock(table, resource, LockTupleExclusive, row) != FENCE_LOCKED)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("resource \"%.*s\" has no fence",
						resource.len, resource.data)));
	if (row->issued)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tokens of resource \"%.*s\" are issued by this database",
						resource.len, resource.data),
				 errdetail("Its fence is %lld.", (long long) row->token)));
}

/*
 * fence_override(resource text, token bigint) returns void
 *
 * Set an external fence, also to a lower token. Transactions that were
 * admitted above it fail at their commit.
 */
Datum
fence_override(PG_FUNCTION_ARGS)
{
	FenceString resource = fence_param_resource(fcinfo, 0);
	int64		token = fence_param_token(fcinfo, 1);
	FenceString nobody = {NULL, 0};
	FenceTable *table;
	FenceRow	row;
	int64		before;

	fence_entry_writes("fence_override()");

	table = fence_table_open(RowExclusiveLock);
	lock_external(table, resource, &row);
	before = row.token;
	fence_row_raise(&row, token, false, nobody);
	fence_table_update(table, resource, &row);
	fence_table_close(table);
	fence_commit_durably();

	ereport(WARNING,
			(errmsg("fence of resource \"%.*s\" was set from %lld to %lld",
					resource.len, resource.data,
					(long long) before, (long long) token)));
	PG_RETURN_VOID();
}

/*
 * fence_adopt(resource text) returns void
 *
 * From now on this database issues the resource's tokens. The current token
 * stays good until the next acquire. Raises 55000 for a fence so high that
 * issuing would soon run out of numbers.
 */
Datum
fence_adopt(PG_FUNCTION_ARGS)
{
	FenceString resource = fence_param_resource(fcinfo, 0);
	FenceTable *table;
	FenceRow	row;

	fence_entry_writes("fence_adopt()");

	table = fence_table_open(RowExclusiveLock);
	lock_external(table, resource, &row);
	if (row.token >= FENCE_EPOCH_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("fence of resource \"%.*s\" is too high to be adopted",
						resource.len, resource.data),
				 errdetail("Its fence is %lld; fences below %lld can be adopted.",
						   (long long) row.token, (long long) FENCE_EPOCH_LIMIT),
				 errhint("Use another name for the resource, or set the fence with fence_override if it is wrong.")));
	fence_token_advance(row.token);
	row.issued = true;
	fence_table_update(table, resource, &row);
	fence_table_close(table);
	fence_commit_durably();
	PG_RETURN_VOID();
}

/* fence_accept_external(prefix text, accept boolean) returns void */
Datum
fence_accept_external(PG_FUNCTION_ARGS)
{
	FenceString prefix = fence_param_prefix(fcinfo, 0);
	bool		accept = fence_param_bool(fcinfo, 1, "accept");

	fence_entry_writes("fence_accept_external()");
	fence_prefix_set_rule(prefix, accept);
	fence_commit_durably();
	PG_RETURN_VOID();
}
