/*
 * fence_param.h
 *		Arguments of the SQL functions, checked.
 */
#ifndef FENCE_PARAM_H
#define FENCE_PARAM_H

#include "fmgr.h"

#include "lockfence.h"

/* The authority that grants leases in this database's own table. */
#define FENCE_AUTHORITY_POSTGRES	"postgres"

extern FenceString fence_param_resource(FunctionCallInfo fcinfo, int n);
extern FenceString *fence_param_resources(FunctionCallInfo fcinfo, int n, int *count);
extern FenceString fence_param_prefix(FunctionCallInfo fcinfo, int n);
extern FenceString fence_param_holder(FunctionCallInfo fcinfo, int n);
extern FenceString fence_param_optional_holder(FunctionCallInfo fcinfo, int n);
extern FenceString fence_param_reason(FunctionCallInfo fcinfo, int n);
extern Oid	fence_param_relation(FunctionCallInfo fcinfo, int n);
extern FenceString fence_param_operation(FunctionCallInfo fcinfo, int n);
extern int64 fence_param_token(FunctionCallInfo fcinfo, int n);
extern int64 fence_param_ttl(FunctionCallInfo fcinfo, int n);
extern int64 fence_param_wait(FunctionCallInfo fcinfo, int n);
extern int64 fence_param_age(FunctionCallInfo fcinfo, int n, const char *what);
extern int64 fence_param_max_rows(FunctionCallInfo fcinfo, int n);
extern bool fence_param_bool(FunctionCallInfo fcinfo, int n, const char *what);
extern const char *fence_param_authority(FunctionCallInfo fcinfo, int n,
										 bool optional);

extern void fence_validate_resource_length(Size len);
extern void fence_validate_token(int64 token);

#endif							/* FENCE_PARAM_H */
