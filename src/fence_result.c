/*
 * fence_result.c
 *		Builds the one row that a function with a named row type returns.
 *
 * Rule: every column is null until it is set.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "fence_result.h"

/* fence_result_begin: for a function whose row type has that many columns */
void
fence_result_begin(FenceResult *result, FunctionCallInfo fcinfo, int columns)
{
	Assert(columns <= FENCE_RESULT_COLUMNS);
	result->type = get_func_rettype(fcinfo->flinfo->fn_oid);
	result->columns = columns;
	memset(result->nulls, true, sizeof(result->nulls));
}

/* fence_result_end: what the SQL function returns */
Datum
fence_result_end(FenceResult *result)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(result->type, -1);
	HeapTuple	row;

	if (desc->natts != result->columns)
		elog(ERROR, "unexpected number of result columns");
	row = heap_form_tuple(desc, result->values, result->nulls);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(row);
}

static void
set(FenceResult *result, int column, Datum value)
{
	result->values[column] = value;
	result->nulls[column] = false;
}

/* fence_result_bool: sets one column, as do the functions below */
void
fence_result_bool(FenceResult *result, int column, bool value)
{
	set(result, column, BoolGetDatum(value));
}

void
fence_result_int64(FenceResult *result, int column, int64 value)
{
	set(result, column, Int64GetDatum(value));
}

void
fence_result_cstring(FenceResult *result, int column, const char *value)
{
	set(result, column, CStringGetTextDatum(value));
}

/* fence_result_string: data NULL is null */
void
fence_result_string(FenceResult *result, int column, FenceString value)
{
	if (value.data != NULL)
		set(result, column,
			PointerGetDatum(cstring_to_text_with_len(value.data, value.len)));
}

void
fence_result_name(FenceResult *result, int column, const char *value)
{
	Name		name = palloc0(NAMEDATALEN);

	namestrcpy(name, value);
	set(result, column, NameGetDatum(name));
}

void
fence_result_time(FenceResult *result, int column, TimestampTz value)
{
	set(result, column, TimestampTzGetDatum(value));
}

/* fence_result_usecs: microseconds as an interval of hours and less */
void
fence_result_usecs(FenceResult *result, int column, int64 value)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = value;
	set(result, column, IntervalPGetDatum(interval));
}
