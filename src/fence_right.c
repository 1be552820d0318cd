/*
 * fence_right.c
 *		Who may raise a fence by writing a row.
 *
 * Rule: fence_trigger is open to everybody, so that owners can protect and
 * restore their tables. Without a right besides, whoever can create a table
 * could raise any external fence through it, and lock others out. Showing the
 * current token needs no right but those on the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fence_right.h"

/* The fence_check that belongs to a guard function. */
static Oid
check_function(Oid guard)
{
	Oid			types[] = {TEXTOID, INT8OID, TEXTOID};

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum("fence_check"),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(get_func_namespace(guard)));
}

static Oid
owner_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * fence_right_to_raise
 *
 * Raises 42501 unless the current user or the owner of the table may execute
 * fence_check, which could raise the fence as well.
 */
void
fence_right_to_raise(Oid guard, Oid target)
{
	Oid			function = check_function(guard);

	if (OidIsValid(function) &&
		(may_execute_compat(function, GetUserId()) ||
		 may_execute_compat(function, owner_of(target))))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to raise a fence through table \"%s\"",
					get_rel_name(target)),
			 errdetail("A row with a token above the fence raises it, which needs the right to execute fence_check for the current user or the owner of the table."),
			 errhint("Grant the right with fence_grant.")));
}
