/*
 * fence_param.c
 *		Checks what callers pass, so that nobody below meets NULL, an empty or
 *		endless text, or a number out of range.
 *
 * Rules: NULL is 22004, a bad value 22023, a resource or holder that is too
 * long 54000. Lengths are looked at before anything is decompressed. Texts
 * point into memory of the calling function.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "fence_param.h"

#define TTL_MIN		(INT64CONST(10000)) /* microseconds */
#define TTL_MAX		(INT64CONST(366) * USECS_PER_DAY)
#define AGE_MAX		(INT64CONST(36600) * USECS_PER_DAY)

static void
reject_null(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

/* A text of at most max bytes. */
static FenceString
text_value(Datum datum, const char *what, Size max)
{
	FenceString result;
	Size		len = toast_raw_datum_size(datum) - VARHDRSZ;
	text	   *value;

	if (len > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too long", what),
				 errdetail("It has %zu bytes; at most %zu are allowed.", len, max)));
	value = DatumGetTextPP(datum);
	result.data = VARDATA_ANY(value);
	result.len = VARSIZE_ANY_EXHDR(value);
	return result;
}

/* A text argument that is not NULL. */
static FenceString
text_arg(FunctionCallInfo fcinfo, int n, const char *what, Size max)
{
	if (PG_ARGISNULL(n))
		reject_null(what);
	return text_value(PG_GETARG_DATUM(n), what, max);
}

static void
reject_empty(FenceString value, const char *what)
{
	if (value.len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be empty", what)));
}

/*
 * fence_validate_resource_length
 *
 * The rule for every resource, also for one built from a row.
 */
void
fence_validate_resource_length(Size len)
{
	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("resource must not be empty")));
	if (len > FENCE_MAX_RESOURCE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("resource is too long"),
				 errdetail("It has %zu bytes; at most %d are allowed.",
						   len, FENCE_MAX_RESOURCE)));
}

/* fence_validate_token: the rule for every token that is shown. */
void
fence_validate_token(int64 token)
{
	if (token <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid fencing token %lld", (long long) token),
				 errdetail("Fencing tokens are greater than zero.")));
}

/* fence_param_resource: 1 to 512 bytes */
FenceString
fence_param_resource(FunctionCallInfo fcinfo, int n)
{
	FenceString resource = text_arg(fcinfo, n, "resource", FENCE_MAX_RESOURCE);

	reject_empty(resource, "resource");
	return resource;
}

static int
compare_strings(const void *a, const void *b)
{
	return fence_string_compare(*(const FenceString *) a, *(const FenceString *) b);
}

/*
 * fence_param_resources
 *
 * An array of resources, in byte order and each once.
 */
FenceString *
fence_param_resources(FunctionCallInfo fcinfo, int n, int *count)
{
	ArrayType  *array;
	Datum	   *values;
	bool	   *nulls;
	int			nvalues;
	FenceString *resources;

	if (PG_ARGISNULL(n))
		reject_null("resources");
	array = PG_GETARG_ARRAYTYPE_P(n);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT,
					  &values, &nulls, &nvalues);
	if (nvalues == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("resources must not be empty")));

	resources = palloc(sizeof(FenceString) * nvalues);
	for (int i = 0; i < nvalues; i++)
	{
		if (nulls[i])
			reject_null("resource");
		resources[i] = text_value(values[i], "resource", FENCE_MAX_RESOURCE);
		reject_empty(resources[i], "resource");
	}
	qsort(resources, nvalues, sizeof(FenceString), compare_strings);

	*count = 1;
	for (int i = 1; i < nvalues; i++)
		if (!fence_string_equal(resources[i], resources[*count - 1]))
			resources[(*count)++] = resources[i];
	return resources;
}

/* fence_param_prefix: as a resource, but empty is "all resources". */
FenceString
fence_param_prefix(FunctionCallInfo fcinfo, int n)
{
	return text_arg(fcinfo, n, "prefix", FENCE_MAX_RESOURCE);
}

/* fence_param_holder: 1 to 512 bytes; has no order and is no token */
FenceString
fence_param_holder(FunctionCallInfo fcinfo, int n)
{
	FenceString holder = text_arg(fcinfo, n, "holder", FENCE_MAX_HOLDER);

	reject_empty(holder, "holder");
	return holder;
}

/* fence_param_operation: the caller's name of what is done once */
FenceString
fence_param_operation(FunctionCallInfo fcinfo, int n)
{
	FenceString operation = text_arg(fcinfo, n, "operation", FENCE_MAX_OPERATION);

	reject_empty(operation, "operation");
	return operation;
}

/* fence_param_reason: for the log */
FenceString
fence_param_reason(FunctionCallInfo fcinfo, int n)
{
	FenceString reason = text_arg(fcinfo, n, "reason", FENCE_MAX_REASON);

	reject_empty(reason, "reason");
	return reason;
}

/* fence_param_relation: whether there is such a one is for the caller to see */
Oid
fence_param_relation(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		reject_null("target");
	return PG_GETARG_OID(n);
}

/* fence_param_optional_holder: NULL is "not given". */
FenceString
fence_param_optional_holder(FunctionCallInfo fcinfo, int n)
{
	FenceString none = {NULL, 0};

	return PG_ARGISNULL(n) ? none : fence_param_holder(fcinfo, n);
}

/* fence_param_token: greater than zero */
int64
fence_param_token(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		reject_null("fencing token");
	fence_validate_token(PG_GETARG_INT64(n));
	return PG_GETARG_INT64(n);
}

/*
 * Length of an interval in microseconds, with days of 24 hours and months of
 * 30 days; out of any range that is asked for below if it is absurd.
 */
static int64
interval_usecs(const Interval *interval)
{
	if (interval->month > 1200 || interval->month < -1200 ||
		interval->day > 36600 || interval->day < -36600 ||
		interval->time > 36600 * USECS_PER_DAY ||
		interval->time < -36600 * USECS_PER_DAY)
		return interval->month < 0 || interval->day < 0 || interval->time < 0 ?
			PG_INT64_MIN : PG_INT64_MAX;
	return interval->time + interval->day * USECS_PER_DAY +
		interval->month * (DAYS_PER_MONTH * USECS_PER_DAY);
}

/* fence_param_ttl: how long a lease runs, in microseconds. */
int64
fence_param_ttl(FunctionCallInfo fcinfo, int n)
{
	int64		ttl;

	if (PG_ARGISNULL(n))
		reject_null("ttl");
	ttl = interval_usecs(PG_GETARG_INTERVAL_P(n));
	if (ttl < TTL_MIN || ttl > TTL_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl is out of range"),
				 errdetail("A lease lasts from 10 milliseconds to 366 days.")));
	return ttl;
}

/* fence_param_wait: how long to wait, in microseconds. */
int64
fence_param_wait(FunctionCallInfo fcinfo, int n)
{
	int64		wait;

	if (PG_ARGISNULL(n))
		reject_null("wait");
	wait = interval_usecs(PG_GETARG_INTERVAL_P(n));
	if (wait < 0 || wait > TTL_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait is out of range"),
				 errdetail("A call waits from 0 to 366 days.")));
	return wait;
}

/* fence_param_age: how long ago, in microseconds */
int64
fence_param_age(FunctionCallInfo fcinfo, int n, const char *what)
{
	int64		age;

	if (PG_ARGISNULL(n))
		reject_null(what);
	age = interval_usecs(PG_GETARG_INTERVAL_P(n));
	if (age < 0 || age > AGE_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is out of range", what),
				 errdetail("It is from 0 to 100 years.")));
	return age;
}

/* fence_param_max_rows: NULL is no limit */
int64
fence_param_max_rows(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return PG_INT64_MAX;
	if (PG_GETARG_INT64(n) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be greater than zero")));
	return PG_GETARG_INT64(n);
}

/* fence_param_bool: NULL is neither */
bool
fence_param_bool(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		reject_null(what);
	return PG_GETARG_BOOL(n);
}

/*
 * fence_param_authority
 *
 * Name of the lease authority, or NULL where the function allows it: this
 * database itself or a Redis server, which is looked up by redis_server.c.
 */
const char *
fence_param_authority(FunctionCallInfo fcinfo, int n, bool optional)
{
	if (PG_ARGISNULL(n))
	{
		if (!optional)
			reject_null("authority");
		return NULL;
	}
	return NameStr(*PG_GETARG_NAME(n));
}
