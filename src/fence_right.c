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
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fence_right.h"

/* The last answer: most rows are written by one user into one table. */
static struct
{
	bool		valid;
	Oid			guard;
	Oid			target;
	Oid			user;
	bool		allowed;
}			last;

static void
forget_answer(Datum arg, int cacheid, uint32 hashvalue)
{
	last.valid = false;
}

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

static bool
find_answer(Oid guard, Oid target)
{
	Oid			function = check_function(guard);
	Oid			owner = owner_of(target);

	return OidIsValid(function) &&
		(may_execute_compat(function, GetUserId()) ||
		 (OidIsValid(owner) && may_execute_compat(function, owner)));
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
	static bool registered = false;
	bool		allowed;

	if (!OidIsValid(guard))
		return true;
	if (last.valid && last.guard == guard && last.target == target &&
		last.user == GetUserId())
		return last.allowed;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, forget_answer, (Datum) 0);
		CacheRegisterSyscacheCallback(RELOID, forget_answer, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHOID, forget_answer, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_answer, (Datum) 0);
		CacheRegisterSyscacheCallback(DATABASEOID, forget_answer, (Datum) 0);
		registered = true;
	}
	/* Reading catalogs may bring news that make the answer stale at once. */
	last.guard = InvalidOid;
	last.valid = true;
	allowed = find_answer(guard, target);
	last.guard = guard;
	last.target = target;
	last.user = GetUserId();
	last.allowed = allowed;
	return allowed;
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

/* fence_right_refuse_prepare: 42501 for a transaction that wrote the table */
void
fence_right_refuse_prepare(Oid target)
{
	const char *table = get_rel_name(target);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 table == NULL ?
			 errmsg("permission denied to prepare a transaction that wrote a protected table") :
			 errmsg("permission denied to prepare a transaction that wrote protected table \"%s\"",
					table),
			 errdetail("A prepared transaction keeps fences locked, which needs the right to execute fence_check for the current user or the owner of the table."),
			 errhint("Grant the right with fence_grant.")));
}
