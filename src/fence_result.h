/*
 * fence_result.h
 *		One row of named columns, as several SQL functions return it.
 */
#ifndef FENCE_RESULT_H
#define FENCE_RESULT_H

#include "datatype/timestamp.h"
#include "fmgr.h"

#include "lockfence.h"

#define FENCE_RESULT_COLUMNS	32

typedef struct FenceResult
{
	Oid			type;
	int			columns;
	Datum		values[FENCE_RESULT_COLUMNS];
	bool		nulls[FENCE_RESULT_COLUMNS];
} FenceResult;

extern void fence_result_begin(FenceResult *result, FunctionCallInfo fcinfo,
							   int columns);
extern Datum fence_result_end(FenceResult *result);

extern void fence_result_bool(FenceResult *result, int column, bool value);
extern void fence_result_int64(FenceResult *result, int column, int64 value);
extern void fence_result_cstring(FenceResult *result, int column, const char *value);
extern void fence_result_string(FenceResult *result, int column, FenceString value);
extern void fence_result_name(FenceResult *result, int column, const char *value);
extern void fence_result_time(FenceResult *result, int column, TimestampTz value);
extern void fence_result_usecs(FenceResult *result, int column, int64 value);

#endif							/* FENCE_RESULT_H */
