/*
 * fence_trigger.c
 *		The trigger that guards a protected table.
 *
 * Before each row it asks: does this transaction hold a valid token for the
 * row's resource? How a token can be shown depends on "present":
 *
 * column		the row's token column shows it, in an INSERT or in an UPDATE
 *				that names the column; otherwise the admission of the
 *				transaction serves
 * transaction	only fence_check and its like show it
 *
 * Rules: a row is never skipped, it passes or is an error. Every doubt about
 * the guard itself is an error too. A row with the resource and the token of
 * the row before is only compared. An observing guard judges alike, but
 * reports to the log and changes nothing.
 *
 * Memory is that of the row's expression context, freed by the executor.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "nodes/bitmapset.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "fence_bypass.h"
#include "fence_observe.h"
#include "fence_report.h"
#include "fence_right.h"
#include "fence_session.h"
#include "fence_spec.h"
#include "fence_stats.h"
#include "fence_table.h"

PG_FUNCTION_INFO_V1(fence_trigger);

/* Begin a memo for rows that return to earlier resources after so many. */
#define RETURNS_FOR_MEMO	64

/* A row under judgement, and what judging it needs. */
typedef struct Judgement
{
	FenceSpec  *spec;
	Relation	rel;
	TupleDesc	desc;
	Oid			function;		/* the trigger function */
} Judgement;

static void
protocol_error(const char *message)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg_internal("%s", message),
			 errhint("Use fence_protect to create the triggers.")));
}

/* How loud this guard is about anything wrong. */
static inline int
complaint_level(const Judgement *judgement)
{
	return judgement->spec->observe ? LOG : ERROR;
}

/* Build a row's resource; false after an observed fault. */
static bool
row_resource(const Judgement *judgement, HeapTuple row, FenceKeyText *text,
			 FenceString *resource)
{
	FenceKeyFault fault = fence_key_build_row(judgement->spec->key, row,
											  judgement->desc, text);

	if (fault != FENCE_KEY_OK)
		return fence_spec_row_error(judgement->spec, judgement->rel, fault,
									text, complaint_level(judgement));
	resource->data = text->data;
	resource->len = text->len;
	return true;
}

/* Nobody showed a token for the resource. The fence is looked up to be named. */
static void
refuse_missing(const Judgement *judgement, FenceString resource)
{
	FenceRefusal refusal = {0};
	FenceTable *table = fence_table_open(AccessShareLock);
	FenceRow	row;

	refusal.verdict = FENCE_MISSING;
	refusal.place = FENCE_AT_STATEMENT;
	refusal.resource = resource;
	if (fence_table_read(table, resource, &row))
	{
		FenceState	state;

		fence_row_state(&row, &state);
		refusal.fence = state.token;
		refusal.fence_holder = state.holder;
		refusal.fence_released = state.released;
	}
	refusal.target = RelationGetRelid(judgement->rel);
	refusal.withheld = !fence_right_through(judgement->function, refusal.target);
	refusal.observed = judgement->spec->observe;
	fence_table_close(table);
	fence_refuse(&refusal);
}

/* The token that this transaction is admitted with; 0 after a refusal. */
static int64
admitted_token(const Judgement *judgement, FenceString resource)
{
	int64		token;

	if (fence_admitted(resource, judgement->spec->observe, &token))
		return token;
	refuse_missing(judgement, resource);
	return 0;
}

/*
 * Remember that the row is admitted. Rows that return to earlier resources are
 * common in some loads, and never seen in others.
 */
static void
remember_row(const Judgement *judgement, HeapTuple row, int64 token, bool returned)
{
	FenceSpec  *spec = judgement->spec;

	if (spec->epoch != fence_session_epoch)
		spec->returns = 0;
	spec->epoch = fence_session_epoch;
	spec->token = token;
	if (!spec->packs)
	{
		spec->known = fence_key_remember(spec->key, row, judgement->desc);
		return;
	}

	spec->known = fence_key_pack(spec->key, row, judgement->desc, &spec->number);
	if (returned && spec->returns < RETURNS_FOR_MEMO)
		spec->returns++;
	if (spec->known && spec->returns == RETURNS_FOR_MEMO)
		fence_memo_add(&spec->memo, spec->epoch, spec->number, token);
}

/* The slow path of admit_row(): build the row's resource and find out. */
static pg_noinline int64
admit_resource(const Judgement *judgement, HeapTuple row, int64 shown)
{
	FenceSpec  *spec = judgement->spec;
	FenceKeyText text;
	FenceString resource;
	uint32		count = fence_admission_count();
	int64		token;

	if (!row_resource(judgement, row, &text, &resource))
		return 0;
	if (shown > 0)
	{
		FenceOffer	offer = {0};

		offer.resource = resource;
		offer.token = shown;
		offer.target = RelationGetRelid(judgement->rel);
		offer.guard = judgement->function;
		offer.observe = spec->observe;
		token = fence_admit(&offer) ? shown : 0;
	}
	else
		token = admitted_token(judgement, resource);

	spec->known = false;
	if (token > 0)
		remember_row(judgement, row, token, count == fence_admission_count());
	return token;
}

/* The token that the row is remembered to be admitted with, or 0. */
static inline int64
remembered_token(const Judgement *judgement, HeapTuple row)
{
	const FenceSpec *spec = judgement->spec;
	uint64		number;

	if (spec->epoch != fence_session_epoch)
		return 0;
	if (!spec->packs)
		return spec->known &&
			fence_key_is_remembered(spec->key, row, judgement->desc) ?
			spec->token : 0;
	if (!fence_key_pack(spec->key, row, judgement->desc, &number))
		return 0;
	if (spec->known && number == spec->number)
		return spec->token;
	return spec->memo == NULL ? 0 :
		fence_memo_find(spec->memo, fence_session_epoch, number);
}

/*
 * admit_row
 *
 * Admit the transaction for the row's resource with the token that the row
 * shows, or without one (shown = 0) find the admission. Returns its token, or
 * 0 after an observed violation.
 */
static inline int64
admit_row(const Judgement *judgement, HeapTuple row, int64 shown)
{
	int64		token = remembered_token(judgement, row);

	if (token > 0 && (shown == 0 || shown == token))
		return token;
	return admit_resource(judgement, row, shown);
}

/* Is the transaction admitted for the resource that an UPDATE takes a row of? */
static bool
admitted_for_old_row(const Judgement *judgement, HeapTuple old_row,
					 HeapTuple new_row)
{
	FenceKeyText text;
	FenceString resource;

	if (fence_key_same_row(judgement->spec->key, old_row, new_row,
						   judgement->desc))
		return true;
	return row_resource(judgement, old_row, &text, &resource) &&
		admitted_token(judgement, resource) > 0;
}

/* A token that a writer put into a row must be one; false if only observed. */
static bool
is_token(const Judgement *judgement, int64 token)
{
	int			level = complaint_level(judgement);

	if (token > 0)
		return true;
	if (level < ERROR)
	{
		fence_observed(RelationGetRelid(judgement->rel),
					   ERRCODE_INVALID_PARAMETER_VALUE, token);
		level = fence_observe_level();
	}
	ereport(level,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%sinvalid fencing token %lld in column \"%s\" of table \"%s\"",
					judgement->spec->observe ? FENCE_OBSERVED_PREFIX : "",
					(long long) token,
					NameStr(TupleDescAttr(judgement->desc,
										  judgement->spec->token_attnum - 1)->attname),
					RelationGetRelationName(judgement->rel)),
			 errdetail("Fencing tokens are greater than zero.")));
	return false;
}

/*
 * refuse_given_token
 *
 * The row holds a token, and it is not the one that the transaction was
 * admitted with.
 */
static void
refuse_given_token(const Judgement *judgement, HeapTuple row, int64 given,
				   int64 admitted)
{
	FenceRefusal refusal = {0};
	FenceKeyText text;

	if (!is_token(judgement, given) ||
		!row_resource(judgement, row, &text, &refusal.resource))
		return;
	refusal.verdict = FENCE_CONFLICT;
	refusal.place = FENCE_AT_STATEMENT;
	refusal.token = given;
	refusal.fence = admitted;
	refusal.target = RelationGetRelid(judgement->rel);
	refusal.observed = judgement->spec->observe;
	fence_refuse_row_token(&refusal, admitted);
}

/* The row with the token in its token column. */
static HeapTuple
stamp(const Judgement *judgement, HeapTuple row, int64 token)
{
	int			attnum = judgement->spec->token_attnum;
	Datum		value = Int64GetDatum(token);
	bool		isnull = false;

	/* The executor has checked only what the writer gave. */
	if (judgement->spec->token_domain)
		domain_check(value, false,
					 TupleDescAttr(judgement->desc, attnum - 1)->atttypid,
					 NULL, CurrentMemoryContext);
	return heap_modify_tuple_by_cols(row, judgement->desc, 1, &attnum, &value,
									 &isnull);
}

/* Does an UPDATE name the token column in its SET list? */
static bool
names_token_column(const FenceSpec *spec, const TriggerData *trigdata)
{
	return bms_is_member(spec->token_attnum - FirstLowInvalidHeapAttributeNumber,
						 trigdata->tg_updatedcols);
}

/*
 * judge_write
 *
 * Judge a row that is inserted (old_row is NULL) or updated, and return it as
 * it is to be stored. A token that is shown is judged before anything else, so
 * that a stale writer learns that it is stale.
 */
static HeapTuple
judge_write(const Judgement *judgement, const TriggerData *trigdata,
			HeapTuple row, HeapTuple old_row)
{
	const FenceSpec *spec = judgement->spec;
	bool		has_column = spec->token_attnum != InvalidAttrNumber;
	bool		given = false;	/* does the row hold a token? */
	int64		given_token = 0;
	int64		shown = 0;
	int64		admitted;

	if (has_column)
	{
		bool		isnull;
		Datum		value = fence_row_attr(row, spec->token_attnum,
										   judgement->desc, &isnull);

		given = !isnull;
		if (given)
			given_token = DatumGetInt64(value);
	}

	if (given && !spec->by_transaction &&
		(old_row == NULL || names_token_column(spec, trigdata)))
	{
		if (!is_token(judgement, given_token))
			return row;
		shown = given_token;
	}

	admitted = admit_row(judgement, row, shown);
	if (admitted == 0)
		return row;
	if (old_row != NULL && !admitted_for_old_row(judgement, old_row, row))
		return row;

	if (!has_column || (given && given_token == admitted))
		return row;

	/*
	 * The row's token is another than the admitted one. That is what an
	 * UPDATE finds that leaves the column alone, or writes back what it read.
	 */
	if (given && spec->by_transaction)
	{
		bool		unchanged = false;

		if (old_row != NULL)
		{
			bool		isnull;
			Datum		value = fence_row_attr(old_row, spec->token_attnum,
											   judgement->desc, &isnull);

			unchanged = !isnull && DatumGetInt64(value) == given_token;
		}
		if (!unchanged)
		{
			refuse_given_token(judgement, row, given_token, admitted);
			return row;
		}
	}

	return spec->observe ? row : stamp(judgement, row, admitted);
}

/*
 * guard_statement
 *
 * The same function is the statement trigger that refuses TRUNCATE. It needs
 * no argument for that; with those of the row trigger it can observe only.
 */
static void
guard_statement(const TriggerData *trigdata)
{
	const Trigger *trigger = trigdata->tg_trigger;
	FenceGuardArgs args;

	if (!TRIGGER_FIRED_BEFORE(trigdata->tg_event))
		protocol_error("function \"fence_trigger\" must be fired before the event");
	if (!TRIGGER_FIRED_BY_TRUNCATE(trigdata->tg_event))
		protocol_error("function \"fence_trigger\" must be fired for each row");

	fence_guard_args_read(trigger->tgnargs, trigger->tgargs, &args);
	if (trigger->tgnargs > 0)
		fence_guard_args_check(&args);
	if (fence_bypass_covers(RelationGetRelid(trigdata->tg_relation)))
		return;
	fence_refuse_truncate(RelationGetRelid(trigdata->tg_relation),
						  fence_guard_observes(&args));
}

/*
 * fence_trigger
 *
 * SQL entry point of both triggers of a protected table.
 */
Datum
fence_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	FenceSpec  *spec;
	Judgement	judgement;
	HeapTuple	row;

	if (!CALLED_AS_TRIGGER(fcinfo))
		protocol_error("function \"fence_trigger\" was not called by trigger manager");
	if (!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event))
	{
		guard_statement(trigdata);
		return PointerGetDatum(NULL);
	}

	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		row = trigdata->tg_newtuple;
	else
		row = trigdata->tg_trigtuple;
	if (unlikely(fence_bypass_any) &&
		fence_bypass_covers(RelationGetRelid(trigdata->tg_relation)))
		return PointerGetDatum(row);
	fence_stats_begin();
	fence_count(FENCE_COUNT_ROWS);

	spec = (FenceSpec *) fcinfo->flinfo->fn_extra;
	if (spec == NULL || !spec->valid ||
		spec->trigger_oid != trigdata->tg_trigger->tgoid)
	{
		spec = fence_spec_get(trigdata->tg_relation,
							  trigdata->tg_trigger->tgoid);
		fcinfo->flinfo->fn_extra = spec;
	}

	judgement.spec = spec;
	judgement.rel = trigdata->tg_relation;
	judgement.desc = RelationGetDescr(trigdata->tg_relation);
	judgement.function = fcinfo->flinfo->fn_oid;

	if (unlikely(!spec->fits))
	{
		fence_observed(spec->relid, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, 0);
		return PointerGetDatum(row);
	}

	if (TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		row = judge_write(&judgement, trigdata, row, NULL);
	else if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		row = judge_write(&judgement, trigdata, row, trigdata->tg_trigtuple);
	else
		(void) admit_row(&judgement, row, 0);
	return PointerGetDatum(row);
}
