/*
 * fence_grant.c
 *		SQL entry: fence_grant, the rights of workers, monitors and operators.
 *
 * Rule: plain GRANTs, run as the caller, so that only who could grant by hand
 * can do it here, and pg_dump keeps the result. Nothing that could change a
 * table is ever granted on one.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "lockfence.h"

PG_FUNCTION_INFO_V1(fence_grant);

#define WORKER		0x01
#define MONITOR		0x02
#define OPERATOR	0x04

typedef struct Right
{
	int			roles;
	bool		in_own_schema;	/* else in the schema of the functions */
	const char *privilege;
	const char *object;
} Right;

static const Right rights[] = {
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_check(text, bigint, text)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_acquire(text, text, interval, interval, name)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_acquire_all(text[], text, interval, interval)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_once(text, bigint, text, text)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_renew(text, bigint, text, interval)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_release(text, bigint, text, name)"},
	{WORKER, false, "EXECUTE ON FUNCTION", "fence_issue(text, text)"},
	{MONITOR | OPERATOR, false, "EXECUTE ON FUNCTION", "fence_current(text)"},
	{MONITOR | OPERATOR, false, "EXECUTE ON FUNCTION", "fence_status(text)"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "guard(oid)"},
	{MONITOR | OPERATOR, true, "SELECT ON", "leases"},
	{MONITOR | OPERATOR, true, "SELECT ON", "protected_tables"},
	{MONITOR | OPERATOR, true, "SELECT ON", "operations"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "read_stats()"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "read_rejections()"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "read_activity()"},
	{MONITOR | OPERATOR, false, "EXECUTE ON FUNCTION", "fence_audit(boolean)"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "check_guard(regclass, oid)"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "above_fence(regclass, oid, record)"},
	{MONITOR | OPERATOR, true, "EXECUTE ON FUNCTION", "accepts_external(text)"},
	{MONITOR | OPERATOR, true, "SELECT ON", "fences"},
	{MONITOR | OPERATOR, true, "SELECT ON", "stats"},
	{MONITOR | OPERATOR, true, "SELECT ON", "rejections"},
	{MONITOR | OPERATOR, true, "SELECT ON", "activity"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_accept_external(text, boolean)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_adopt(text)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_override(text, bigint)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_redis_check(name)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_prune(text, interval, boolean, bigint)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_prune_operations(text, interval)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_new_epoch(bigint)"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_stats_reset()"},
	{OPERATOR, false, "EXECUTE ON FUNCTION", "fence_evict(text)"},
};

static int
parse_role(const char *what)
{
	if (strcmp(what, "worker") == 0)
		return WORKER;
	if (strcmp(what, "monitor") == 0)
		return MONITOR;
	if (strcmp(what, "operator") == 0)
		return OPERATOR;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized kind of rights: \"%s\"", what),
			 errhint("Use worker, monitor or operator.")));
}

static void
grant(const char *privilege, const char *schema, const char *object,
	  const char *grantee)
{
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command, "GRANT %s %s", privilege, quote_identifier(schema));
	if (object != NULL)
		appendStringInfo(&command, ".%s", object);
	appendStringInfo(&command, " TO %s", grantee);
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute \"%s\"", command.data);
	pfree(command.data);
}

/*
 * fence_grant(grantee regrole, what text) returns void
 *
 * Hand out the rights that one kind of role needs, with USAGE on the schemas
 * they are in. Raises what GRANT raises.
 */
Datum
fence_grant(PG_FUNCTION_ARGS)
{
	const char *schema = get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid));
	const char *grantee;
	int			roles;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(0) ? "grantee" : "what")));
	grantee = quote_identifier(GetUserNameFromId(PG_GETARG_OID(0), false));
	roles = parse_role(text_to_cstring(PG_GETARG_TEXT_PP(1)));

	SPI_connect();
	grant("USAGE ON SCHEMA", schema, NULL, grantee);
	if (roles & (MONITOR | OPERATOR))
		grant("USAGE ON SCHEMA", LOCKFENCE_SCHEMA, NULL, grantee);
	for (int i = 0; i < lengthof(rights); i++)
		if (rights[i].roles & roles)
			grant(rights[i].privilege,
				  rights[i].in_own_schema ? LOCKFENCE_SCHEMA : schema,
				  rights[i].object, grantee);
	SPI_finish();
	PG_RETURN_VOID();
}
