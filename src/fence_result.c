/*
 * fence_result.c
 *		Builds the one row that a function with OUT parameters returns.
 *
 * Rules: every column is null until it is set. The descriptor of a function's
 * row is kept, for building it costs a third of a call that finds a lease held.
 * It is dropped when any function changes, but only on the next call: nothing
 * holds a descriptor across catalog access.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fence_result.h"

typedef struct Shape
{
	Oid			function;		/* hash key */
	TupleDesc	desc;
} Shape;

static HTAB *shapes = NULL;
static MemoryContext shapes_context = NULL;
static bool shapes_stale = true;

static void
mark_stale(Datum arg, int cacheid, uint32 hashvalue)
{
	shapes_stale = true;
}

/* Start with no descriptor. */
static void
forget_shapes(void)
{
	HASHCTL		control;

	if (shapes_context == NULL)
	{
		shapes_context = AllocSetContextCreate(CacheMemoryContext,
											   "lockfence results",
											   ALLOCSET_SMALL_SIZES);
		CacheRegisterSyscacheCallback(PROCOID, mark_stale, (Datum) 0);
	}
	shapes = NULL;
	MemoryContextReset(shapes_context);
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Shape);
	control.hcxt = shapes_context;
	shapes = hash_create("lockfence results", 16, &control,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	shapes_stale = false;
}

/* The row of the function that is called. */
static TupleDesc
row_shape(FunctionCallInfo fcinfo)
{
	Oid			function = fcinfo->flinfo->fn_oid;
	TupleDesc	built;
	Shape	   *shape;
	MemoryContext caller;

	if (shapes_stale || shapes == NULL)
		forget_shapes();
	shape = hash_search(shapes, &function, HASH_FIND, NULL);
	if (shape != NULL)
		return shape->desc;

	/* This reads catalogs, and may make what is known stale. */
	if (get_call_result_type(fcinfo, NULL, &built) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "unexpected result type");
	if (shapes_stale)
		return built;
	caller = MemoryContextSwitchTo(shapes_context);
	built = CreateTupleDescCopy(built);
	MemoryContextSwitchTo(caller);
	shape = hash_search(shapes, &function, HASH_ENTER, NULL);
	shape->desc = built;
	return built;
}

/* fence_result_begin: for a function declared with that many OUT parameters */
void
fence_result_begin(FenceResult *result, FunctionCallInfo fcinfo, int columns)
{
	Assert(columns <= FENCE_RESULT_COLUMNS);
	result->fcinfo = fcinfo;
	result->columns = columns;
	memset(result->nulls, true, sizeof(result->nulls));
}

/* fence_result_end: what the SQL function returns */
Datum
fence_result_end(FenceResult *result)
{
	TupleDesc	desc = row_shape(result->fcinfo);

	if (desc->natts != result->columns)
		elog(ERROR, "unexpected number of result columns");
	return HeapTupleGetDatum(heap_form_tuple(desc, result->values, result->nulls));
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
