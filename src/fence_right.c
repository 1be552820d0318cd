/*
 * fence_right.c
 *		What may be done to a fence, and learnt of it, by writing a row.
 *
 * Rule: fence_trigger is open to everybody, so that owners can protect and
 * restore their tables. Without a right besides, whoever can create a table
 * could raise any external fence through it, read the fence and its holder from
 * a refusal, or keep it locked by a prepared transaction. Showing the current
 * token needs no right but those on the table.
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

/* The guard function that was asked about last; a database has one. */
static Oid	known_guard = InvalidOid;

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

/* The owner of a table; InvalidOid if this transaction has dropped it. */
static Oid
owner_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

/*
 * fence_right_through
 *
 * May the current user or the owner of the table execute fence_check, which
 * can do all that a row can? True if no guard is involved.
 */
bool
fence_right_through(Oid guard, Oid target)
{
	Oid			function;
	Oid			owner;

	if (!OidIsValid(guard))
		return true;
	function = check_function(guard);
	owner = owner_of(target);
	return OidIsValid(function) &&
		(may_execute_compat(function, GetUserId()) ||
		 (OidIsValid(owner) && may_execute_compat(function, owner)));
}

/*
 * fence_right_note, fence_right_guard
 *
 * The guard function whose rows were admitted, for the check at commit.
 */
void
fence_right_note(Oid guard)
{
	known_guard = guard;
}

Oid
fence_right_guard(void)
{
	return known_guard;
}

/*
 * fence_right_to_raise
 *
 * Raises 42501 unless fence_right_through().
 */
void
fence_right_to_raise(Oid guard, Oid target)
{
	if (!fence_right_through(guard, target))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to raise a fence through table \"%s\"",
						get_rel_name(target)),
				 errdetail("A row with a token above the fence raises it, which needs the right to execute fence_check for the current user or the owner of the table."),
				 errhint("Grant the right with fence_grant.")));
}

/* fence_right_to_prepare: likewise, for a transaction that wrote the table */
void
fence_right_to_prepare(Oid target)
{
	if (!fence_right_through(known_guard, target))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to prepare a transaction that wrote protected table \"%s\"",
						get_rel_name(target)),
				 errdetail("A prepared transaction keeps fences locked, which needs the right to execute fence_check for the current user or the owner of the table."),
				 errhint("Grant the right with fence_grant.")));
}
