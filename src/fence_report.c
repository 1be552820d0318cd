/*
 * fence_report.c
 *		The only file that words the refusal of a token.
 *
 * Rules: a refusal names resource, tokens, holders and table, never row data.
 * No message hints at trying a stale token again. The DETAIL line has one form
 * for all refusals, since log readers parse it:
 *
 *	Offered token T [of holder "H"] for resource "R"; the fence is F
 *	[of holder "G"][, released]; [table "S.T";] at statement|commit.
 *
 * with "none" for a token that was not shown or a fence that is not there, and
 * "not shown" for one that the client has no right to see. A double quote inside
 * a quoted string is doubled.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "fence_journal.h"
#include "fence_observe.h"
#include "fence_report.h"
#include "fence_stats.h"

/*
 * A text as it can be sent to the client. One that its encoding cannot
 * represent would be an error that takes the refusal's place, with another
 * SQLSTATE; so what is not ASCII is then written as \xNN.
 */
static char *
displayable(const char *text, int len)
{
	int			server = GetDatabaseEncoding();
	int			client = pg_get_client_encoding();
	Oid			conversion = InvalidOid;
	StringInfoData buf;

	if (client != server && client != PG_SQL_ASCII && server != PG_SQL_ASCII)
		conversion = FindDefaultConversionProc(server, client);
	if (OidIsValid(conversion))
	{
		int			room = len * MAX_CONVERSION_GROWTH + 1;
		unsigned char *converted = palloc(room);
		int			done;

		done = pg_do_encoding_conversion_buf(conversion, server, client,
											 (unsigned char *) unconstify(char *, text),
											 len, converted, room, true);
		pfree(converted);
		if (done < len)
		{
			initStringInfo(&buf);
			for (int i = 0; i < len; i++)
				if (IS_HIGHBIT_SET(text[i]))
					appendStringInfo(&buf, "\\x%02x", (unsigned char) text[i]);
				else
					appendStringInfoChar(&buf, text[i]);
			return buf.data;
		}
	}
	return pnstrdup(text, len);
}

/* "schema.table" of a relation, or NULL; also names it to the client. */
static char *
target_name(Oid target)
{
	char	   *name = OidIsValid(target) ? get_rel_name(target) : NULL;

	if (name == NULL)
		return NULL;
	return psprintf("%s.%s", get_namespace_name(get_rel_namespace(target)), name);
}

/* Tell the client's error fields which table it was. */
static int
errtarget(Oid target)
{
	char	   *name = OidIsValid(target) ? get_rel_name(target) : NULL;

	if (name != NULL)
	{
		char	   *schema = get_namespace_name(get_rel_namespace(target));

		err_generic_string(PG_DIAG_SCHEMA_NAME, displayable(schema, strlen(schema)));
		err_generic_string(PG_DIAG_TABLE_NAME, displayable(name, strlen(name)));
	}
	return 0;
}

static void
append_quoted(StringInfo buf, FenceString string)
{
	appendStringInfoChar(buf, '"');
	for (int i = 0; i < string.len; i++)
	{
		if (string.data[i] == '"')
			appendStringInfoChar(buf, '"');
		appendStringInfoChar(buf, string.data[i]);
	}
	appendStringInfoChar(buf, '"');
}

static void
append_token(StringInfo buf, int64 token, FenceString holder)
{
	if (token == 0)
		appendStringInfoString(buf, "none");
	else
		appendStringInfo(buf, "%lld", (long long) token);
	if (holder.data != NULL)
	{
		appendStringInfoString(buf, " of holder ");
		append_quoted(buf, holder);
	}
}

/* The DETAIL line, in the form that the file head gives. */
static char *
refusal_detail(const FenceRefusal *refusal)
{
	StringInfoData buf;
	char	   *target = target_name(refusal->target);

	initStringInfo(&buf);
	appendStringInfoString(&buf, "Offered token ");
	append_token(&buf, refusal->token, refusal->holder);
	appendStringInfoString(&buf, " for resource ");
	append_quoted(&buf, refusal->resource);
	appendStringInfoString(&buf, "; the fence is ");
	if (refusal->withheld)
		appendStringInfoString(&buf, "not shown");
	else
		append_token(&buf, refusal->fence, refusal->fence_holder);
	if (refusal->fence_released && !refusal->withheld)
		appendStringInfoString(&buf, ", released");
	if (target != NULL)
	{
		FenceString name = {target, strlen(target)};

		appendStringInfoString(&buf, "; table ");
		append_quoted(&buf, name);
	}
	appendStringInfo(&buf, "; at %s.",
					 refusal->place == FENCE_AT_COMMIT ? "commit" : "statement");
	return displayable(buf.data, buf.len);
}

/*
 * Memory for the words of a refusal that is only observed: a commit may have
 * many. An error takes it with the context it is a child of.
 */
static MemoryContext
begin_words(void)
{
	return MemoryContextSwitchTo(AllocSetContextCreate(CurrentMemoryContext,
													   "lockfence refusal",
													   ALLOCSET_SMALL_SIZES));
}

static void
end_words(MemoryContext caller)
{
	MemoryContextDelete(MemoryContextSwitchTo(caller));
}

/* Count a refusal and keep it over the rollback that it causes. */
static void
record(const FenceRefusal *refusal, FenceCounter counter, int sqlstate)
{
	FenceRejection rejection;

	fence_stats_begin();
	fence_count(refusal->observed ? FENCE_COUNT_OBSERVED : counter);

	memset(&rejection, 0, offsetof(FenceRejection, resource));
	rejection.target = refusal->target;
	rejection.sqlstate = sqlstate;
	rejection.at_commit = refusal->place == FENCE_AT_COMMIT;
	rejection.observed = refusal->observed;
	rejection.token = refusal->token;
	rejection.fence = refusal->fence;
	fence_text_set(&rejection.resource, refusal->resource);
	fence_text_set(&rejection.holder, refusal->holder);
	fence_text_set(&rejection.fence_holder, refusal->fence_holder);
	fence_journal_write(&rejection);
}

/* Refusals that are only observed are logged with this before them. */
static const char *
prefix(bool observed)
{
	return observed ? FENCE_OBSERVED_PREFIX : "";
}

static int
level_of(const FenceRefusal *refusal)
{
	return refusal->observed ? fence_observe_level() : ERROR;
}

/*
 * fence_observed
 *
 * Count and keep what is wrong with a write to a table that is only observed,
 * where no token is judged: no usable resource, or a guard that does not fit.
 * The caller words and logs it.
 */
void
fence_observed(Oid target, int sqlstate, int64 token)
{
	FenceRefusal refusal = {0};

	refusal.place = FENCE_AT_STATEMENT;
	refusal.token = token;
	refusal.target = target;
	refusal.observed = true;
	record(&refusal, FENCE_COUNT_OBSERVED, sqlstate);
}

/*
 * fence_refuse
 *
 * Raise the error of a refusal, or log it when it is only observed.
 */
void
fence_refuse(const FenceRefusal *refusal)
{
	int			level = level_of(refusal);
	bool		at_commit = refusal->place == FENCE_AT_COMMIT;
	const char *observed = prefix(refusal->observed);
	MemoryContext caller = begin_words();
	char	   *resource = displayable(refusal->resource.data, refusal->resource.len);
	char	   *detail = refusal_detail(refusal);

	switch (refusal->verdict)
	{
		case FENCE_STALE:
			record(refusal, at_commit ? FENCE_COUNT_STALE_COMMIT :
				   FENCE_COUNT_STALE_STATEMENT, ERRCODE_STALE_FENCING_TOKEN);
			ereport(level,
					(errcode(ERRCODE_STALE_FENCING_TOKEN),
					 errmsg("%sfencing token %lld for resource \"%s\" is stale",
							observed, (long long) refusal->token, resource),
					 errdetail_internal("%s", detail),
					 errhint("Stop this attempt: its generation has ended, and nothing of this transaction is applied."),
					 errtarget(refusal->target)));
			break;

		case FENCE_MISSING:
			record(refusal, FENCE_COUNT_MISSING, ERRCODE_MISSING_FENCING_TOKEN);
			ereport(level,
					(errcode(ERRCODE_MISSING_FENCING_TOKEN),
					 errmsg("%sno fencing token was shown for resource \"%s\"",
							observed, resource),
					 errdetail_internal("%s", detail),
					 errhint("Call fence_check for the resource in this transaction before writing."),
					 errtarget(refusal->target)));
			break;

		case FENCE_UNISSUED:
			record(refusal, at_commit ? FENCE_COUNT_UNISSUED_COMMIT :
				   FENCE_COUNT_UNISSUED_STATEMENT, ERRCODE_UNISSUED_FENCING_TOKEN);
			ereport(level,
					(errcode(ERRCODE_UNISSUED_FENCING_TOKEN),
					 errmsg("%sfencing token %lld for resource \"%s\" was never issued",
							observed, (long long) refusal->token, resource),
					 errdetail_internal("%s", detail),
					 errhint("Show the token that fence_acquire or fence_issue returned, and check the spelling of the resource."),
					 errtarget(refusal->target)));
			break;

		case FENCE_CONFLICT:
			record(refusal, FENCE_COUNT_CONFLICT, ERRCODE_FENCING_TOKEN_CONFLICT);
			ereport(level,
					(errcode(ERRCODE_FENCING_TOKEN_CONFLICT),
					 errmsg("%sfencing token %lld for resource \"%s\" belongs to another holder",
							observed, (long long) refusal->token, resource),
					 errdetail_internal("%s", detail),
					 errhint("Two holders show one token; find out who minted it twice."),
					 errtarget(refusal->target)));
			break;

		case FENCE_ACCEPT:
		case FENCE_RAISE:
			elog(ERROR, "verdict %d is no refusal", refusal->verdict);
	}

	end_words(caller);
}

/*
 * fence_refuse_row_token
 *
 * Refuse a row whose token column holds another token than the one that the
 * transaction was admitted with.
 */
void
fence_refuse_row_token(const FenceRefusal *refusal, int64 admitted)
{
	MemoryContext caller = begin_words();
	char	   *resource = displayable(refusal->resource.data, refusal->resource.len);
	char	   *detail = refusal_detail(refusal);

	record(refusal, FENCE_COUNT_CONFLICT, ERRCODE_FENCING_TOKEN_CONFLICT);
	ereport(level_of(refusal),
			(errcode(ERRCODE_FENCING_TOKEN_CONFLICT),
			 errmsg("%srow carries fencing token %lld, but this transaction was admitted with %lld for resource \"%s\"",
					prefix(refusal->observed), (long long) refusal->token,
					(long long) admitted, resource),
			 errdetail_internal("%s", detail),
			 errhint("Leave the token column out, or set it to the token given to fence_check."),
			 errtarget(refusal->target)));
	end_words(caller);
}

/*
 * fence_refuse_truncate
 *
 * TRUNCATE touches every resource of a table and shows no token for any.
 */
void
fence_refuse_truncate(Oid target, bool observed)
{
	FenceRefusal refusal = {0};
	char	   *table = get_rel_name(target);

	refusal.target = target;
	refusal.observed = observed;
	record(&refusal, FENCE_COUNT_MISSING, ERRCODE_MISSING_FENCING_TOKEN);
	ereport(level_of(&refusal),
			(errcode(ERRCODE_MISSING_FENCING_TOKEN),
			 errmsg("%scannot truncate protected table \"%s\"",
					prefix(observed), displayable(table, strlen(table))),
			 errdetail("TRUNCATE shows no fencing token for the resources of the rows."),
			 errhint("Delete the rows of each resource in a transaction that was admitted for it."),
			 errtarget(target)));
}

/*
 * fence_refuse_snapshot
 *
 * The token is right, but the transaction cannot see what the generation
 * before wrote last. The token may be shown again, in a new transaction.
 */
void
fence_refuse_snapshot(FenceString resource, int64 token)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access to resource \"%s\"",
					displayable(resource.data, resource.len)),
			 errdetail("Token %lld was raised after the snapshot of this transaction was taken.",
					   (long long) token),
			 errhint("Start a new transaction and show the same token.")));
}
