/*
 * fence_stats_view.c
 *		Functions behind lockfence.stats, lockfence.rejections and
 *		lockfence.activity.
 *
 * Rules: as in pg_stat_activity, what others do is shown in full only to
 * members of pg_read_all_stats; without that right a row says no more than
 * when and by which process. Without shared memory there is an error with a
 * hint rather than an empty answer.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "fence_activity.h"
#include "fence_journal.h"
#include "fence_result.h"
#include "fence_stats.h"
#include "fence_table.h"

PG_FUNCTION_INFO_V1(lockfence_stats);
PG_FUNCTION_INFO_V1(lockfence_rejections);
PG_FUNCTION_INFO_V1(lockfence_activity);

static bool
may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), role);
}

/* One row: the counters in their order, and since when. */
Datum
lockfence_stats(PG_FUNCTION_ARGS)
{
	FenceResult result;
	uint64		counters[FENCE_COUNTERS];
	TimestampTz since;

	(void) fence_shared_needed();
	if (!fence_stats_read(counters, &since))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("database \"%s\" is not counted",
						get_database_name(MyDatabaseId)),
				 errdetail("%d databases of this server are counted already.",
						   FENCE_MAX_DATABASES)));
	fence_result_begin(&result, fcinfo, FENCE_COUNTERS + 1);
	for (int i = 0; i < FENCE_COUNTERS; i++)
		fence_result_int64(&result, i, (int64) counters[i]);
	fence_result_time(&result, FENCE_COUNTERS, since);
	return fence_result_end(&result);
}

/* A text that may come from a database with another encoding. */
static Datum
text_datum(const FenceText *kept)
{
	text	   *result = cstring_to_text_with_len(kept->data, kept->len);
	char	   *data = VARDATA(result);

	if (!pg_verifymbstr(data, kept->len, true))
		for (int i = 0; i < kept->len; i++)
			if (IS_HIGHBIT_SET(data[i]))
				data[i] = '?';
	return PointerGetDatum(result);
}

/* The refusals that are kept, oldest first. */
Datum
lockfence_rejections(PG_FUNCTION_ARGS)
{
	enum
	{
		AT, DATABASE, ROLE, APPLICATION, CLIENT, PID, RESOURCE, TOKEN, HOLDER,
		FENCE, FENCE_HOLDER, TARGET, COMMAND, PLACE, SQLSTATE, OBSERVED, COLUMNS
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FenceRejection *journal;
	int			count;

	(void) fence_shared_needed();
	journal = fence_journal_read(&count);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		const FenceRejection *entry = &journal[i];
		Datum		values[COLUMNS] = {0};
		bool		nulls[COLUMNS];

		memset(nulls, true, sizeof(nulls));
		nulls[AT] = nulls[DATABASE] = nulls[ROLE] = nulls[PID] = false;
		nulls[PLACE] = nulls[SQLSTATE] = nulls[OBSERVED] = false;
		values[AT] = TimestampTzGetDatum(entry->at);
		values[DATABASE] = ObjectIdGetDatum(entry->database);
		values[ROLE] = ObjectIdGetDatum(entry->role);
		values[PID] = Int32GetDatum(entry->pid);
		values[PLACE] = CStringGetTextDatum(entry->at_commit ? "commit" : "statement");
		values[SQLSTATE] = CStringGetTextDatum(unpack_sql_state(entry->sqlstate));
		values[OBSERVED] = BoolGetDatum(entry->observed);
		if (may_see(entry->role))
		{
			nulls[APPLICATION] = nulls[COMMAND] = false;
			values[APPLICATION] = CStringGetTextDatum(entry->application);
			values[COMMAND] = CStringGetTextDatum(entry->command);
			nulls[CLIENT] = entry->client[0] == '\0';
			if (!nulls[CLIENT])
				values[CLIENT] = DirectFunctionCall1(inet_in, CStringGetDatum(entry->client));
			nulls[RESOURCE] = !entry->resource.known;
			values[RESOURCE] = text_datum(&entry->resource);
			nulls[TOKEN] = entry->token == 0;
			values[TOKEN] = Int64GetDatum(entry->token);
			nulls[HOLDER] = !entry->holder.known;
			values[HOLDER] = text_datum(&entry->holder);
			nulls[FENCE] = entry->fence == 0;
			values[FENCE] = Int64GetDatum(entry->fence);
			nulls[FENCE_HOLDER] = !entry->fence_holder.known;
			values[FENCE_HOLDER] = text_datum(&entry->fence_holder);
			nulls[TARGET] = !OidIsValid(entry->target) ||
				entry->database != MyDatabaseId;
			values[TARGET] = ObjectIdGetDatum(entry->target);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Would the transaction behind an admission fail at its commit? Its own raise,
 * not committed yet, leaves the fence below its token, or none at all. That is
 * told from an administrator's override by who has changed the row.
 */
static bool
is_stale(FenceTable *table, FenceString resource, int64 token, FenceRow *row)
{
	FenceState	state;
	FenceBlocker blocker;
	FenceVerdict verdict = FENCE_ACCEPT;

	/* The raise may be committed between reading and asking who did it. */
	for (int look = 0; look < 2; look++)
	{
		if (!fence_table_read(table, resource, row))
			return !TransactionIdIsValid(row->inserter);
		fence_row_state(row, &state);
		verdict = fence_judge_commit(&state, token);
		if (verdict != FENCE_UNISSUED)
			break;
		fence_table_blocker(table, row, &blocker);
		if (TransactionIdIsValid(blocker.xid) && !blocker.committing)
			return false;
	}
	return verdict != FENCE_ACCEPT;
}

/* Admissions of open and prepared transactions in this database. */
Datum
lockfence_activity(PG_FUNCTION_ARGS)
{
	enum
	{
		PID, XID, ROLE, RESOURCE, TOKEN, FENCE, STALE, SINCE, COLUMNS
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FenceTable *table;

	(void) fence_shared_needed();
	InitMaterializedSRF(fcinfo, 0);
	table = fence_table_open(AccessShareLock);
	for (int place = 0; place < FENCE_MAX_ACTIVITY; place++)
	{
		FenceActivityCopy copy;
		Datum		values[COLUMNS] = {0};
		bool		nulls[COLUMNS];

		if (!fence_activity_read(place, &copy))
			continue;
		memset(nulls, true, sizeof(nulls));
		nulls[PID] = copy.pid == 0;
		values[PID] = Int32GetDatum(copy.pid);
		nulls[XID] = copy.pid != 0;
		values[XID] = TransactionIdGetDatum(copy.xid);
		nulls[ROLE] = nulls[SINCE] = false;
		values[ROLE] = ObjectIdGetDatum(copy.role);
		values[SINCE] = TimestampTzGetDatum(copy.since);
		if (may_see(copy.role))
		{
			FenceRow	row;
			bool		stale = is_stale(table, fence_text_get(&copy.resource),
										 copy.token, &row);

			/* What has ended meanwhile was not stale. */
			if (stale && !fence_activity_still(place, &copy))
				continue;
			nulls[RESOURCE] = nulls[TOKEN] = nulls[STALE] = false;
			values[RESOURCE] = text_datum(&copy.resource);
			values[TOKEN] = Int64GetDatum(copy.token);
			nulls[FENCE] = !row.found;
			values[FENCE] = row.found ? Int64GetDatum(row.token) : (Datum) 0;
			values[STALE] = BoolGetDatum(stale);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	fence_table_close(table);
	return (Datum) 0;
}
