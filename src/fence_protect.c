/*
 * fence_protect.c
 *		SQL entries: fence_protect and fence_unprotect.
 *
 * Rules: everything is checked before anything is created. Triggers are made
 * and dropped by SQL commands, so that rights, event triggers and dependencies
 * are PostgreSQL's own affair; every name in such a command is qualified and
 * quoted, so that no search_path changes what it means.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fence_fit.h"
#include "fence_target.h"

PG_FUNCTION_INFO_V1(fence_protect);
PG_FUNCTION_INFO_V1(fence_unprotect);

/* A trigger of a table, by name. */
typedef struct TableTrigger
{
	Oid			relid;
	char	   *name;
} TableTrigger;

static char *
required_text(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", what)));
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static Oid
required_target(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("target table must not be null")));
	return PG_GETARG_OID(0);
}

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* Run a command and forget its text. */
static void
execute(StringInfo sql)
{
	if (SPI_execute(sql->data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "unexpected result of a command: %s", sql->data);
	resetStringInfo(sql);
}

static void
append_execute_function(StringInfo sql, Oid function,
						const FenceGuardArgs *args, const FenceKey *key)
{
	appendStringInfo(sql, " EXECUTE FUNCTION %s(",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
												get_func_name(function)));
	fence_guard_args_write(sql, args, key);
	appendStringInfoChar(sql, ')');
}

/* Raise an error unless the guard to be made will fit the table's columns. */
static void
check_columns(Relation rel, const FenceGuardArgs *args, FenceKey *key)
{
	AttrNumber	token_attnum;
	FenceMisfit misfit;

	if (!fence_fit_columns(rel, args, key, &token_attnum, &misfit))
		ereport(ERROR,
				(errcode(misfit.sqlstate),
				 errmsg_internal("%s", misfit.message),
				 misfit.hint ? errhint("%s", misfit.hint) : 0));
}

/*
 * check_triggers
 *
 * Raise an error if the table has a trigger that stands in the guard's way:
 * one that took its name, a second guard, or one that fires after it.
 */
static void
check_triggers(Relation rel, Oid function)
{
	TriggerDesc *triggers = rel->trigdesc;
	const char *table = RelationGetRelationName(rel);
	FenceMisfit misfit;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];
		bool		our_name = strcmp(trigger->tgname, FENCE_GUARD_NAME) == 0 ||
			strcmp(trigger->tgname, FENCE_TRUNCATE_NAME) == 0;

		if (trigger->tgfoid != function && our_name)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("trigger \"%s\" of table \"%s\" is not a guard",
							trigger->tgname, table),
					 errhint("Rename or drop it: the guard needs its name.")));
		if (trigger->tgfoid == function && !our_name &&
			TRIGGER_FOR_ROW(trigger->tgtype))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s\" already has the guard \"%s\"",
							table, trigger->tgname),
					 errhint("Drop that trigger, or call fence_unprotect first.")));
	}

	if (!fence_fit_order(rel, FENCE_GUARD_NAME, &misfit))
		ereport(ERROR,
				(errcode(misfit.sqlstate),
				 errmsg_internal("%s", misfit.message),
				 errhint("%s", misfit.hint)));
}

/* Add the table's guards, or those that always fire only, to the list. */
static List *
add_guards(List *guards, Relation rel, Oid function, bool always_only)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];
		TableTrigger *guard;

		if (trigger->tgfoid != function)
			continue;
		if (always_only ? trigger->tgenabled != TRIGGER_FIRES_ALWAYS :
			trigger->tgisclone)
			continue;
		guard = palloc(sizeof(TableTrigger));
		guard->relid = RelationGetRelid(rel);
		guard->name = pstrdup(trigger->tgname);
		guards = lappend(guards, guard);
	}
	return guards;
}

/*
 * create_guards
 *
 * Create or replace the row guard of the target, which clones it to its
 * partitions, and a TRUNCATE guard on each of them. A replaced trigger fires
 * as an ordinary one again, so those in "always" are set back to ALWAYS.
 */
static void
create_guards(List *members, List *always, Oid function,
			  const FenceGuardArgs *args, const FenceKey *key)
{
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	SPI_connect();

	appendStringInfo(&sql,
					 "CREATE OR REPLACE TRIGGER " FENCE_GUARD_NAME
					 " BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW",
					 qualified_name(linitial_oid(members)));
	append_execute_function(&sql, function, args, key);
	execute(&sql);

	foreach(lc, members)
	{
		appendStringInfo(&sql,
						 "CREATE OR REPLACE TRIGGER " FENCE_TRUNCATE_NAME
						 " BEFORE TRUNCATE ON %s FOR EACH STATEMENT",
						 qualified_name(lfirst_oid(lc)));
		append_execute_function(&sql, function, args, key);
		execute(&sql);
	}

	foreach(lc, always)
	{
		TableTrigger *guard = (TableTrigger *) lfirst(lc);

		appendStringInfo(&sql, "ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %s",
						 qualified_name(guard->relid),
						 quote_identifier(guard->name));
		execute(&sql);
	}

	if (fence_guard_fires_always(args))
	{
		foreach(lc, members)
		{
			appendStringInfo(&sql, "ALTER TABLE ONLY %s"
							 " ENABLE ALWAYS TRIGGER " FENCE_GUARD_NAME ","
							 " ENABLE ALWAYS TRIGGER " FENCE_TRUNCATE_NAME,
							 qualified_name(lfirst_oid(lc)));
			execute(&sql);
		}
	}

	SPI_finish();
}

/* Did somebody want the table's row guard to fire always, now or before? */
static const char *
declared_firing(Relation rel, Oid function)
{
	Trigger    *guard = fence_guard_find(rel, function);
	FenceGuardArgs args;

	if (guard == NULL)
		return FENCE_FIRING_ORIGIN;
	fence_guard_args_read(guard->tgnargs, guard->tgargs, &args);
	return guard->tgenabled == TRIGGER_FIRES_ALWAYS ||
		fence_guard_fires_always(&args) ?
		FENCE_FIRING_ALWAYS : FENCE_FIRING_ORIGIN;
}

/*
 * fence_protect(target regclass, resource text, token_column name,
 *				 present text, mode text) returns void
 *
 * Protect a table of the caller's. Called again it changes or repairs the
 * protection: missing guards are created, disabled ones enabled, and guards
 * that once fired always do so again. Writers are kept out meanwhile, so whatever
 * commits afterwards was guarded.
 */
Datum
fence_protect(PG_FUNCTION_ARGS)
{
	Oid			target = required_target(fcinfo);
	FenceGuardArgs args = {0};
	FenceKey   *key;
	Relation	rel;
	Oid			function;
	List	   *members;
	List	   *always = NIL;
	ListCell   *lc;

	args.resource = required_text(fcinfo, 1, "resource template");
	if (!PG_ARGISNULL(2))
		args.token_column = NameStr(*PG_GETARG_NAME(2));
	if (!PG_ARGISNULL(3))
		args.present = text_to_cstring(PG_GETARG_TEXT_PP(3));
	args.mode = required_text(fcinfo, 4, "mode");
	fence_guard_args_default(&args);

	rel = fence_target_open(target, ShareRowExclusiveLock);
	function = fence_guard_function(fcinfo->flinfo->fn_oid);
	args.firing = declared_firing(rel, function);
	fence_target_check_kind(rel);
	fence_target_check_whole(rel, function);

	key = fence_key_parse(args.resource);
	if (args.token_column != NULL && args.token_column[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("token column must not be empty"),
				 errhint("Pass null for a table without a token column.")));

	members = fence_target_members(rel, ShareRowExclusiveLock);
	foreach(lc, members)
	{
		Relation	member = relation_open(lfirst_oid(lc), NoLock);

		if (member->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot protect table \"%s\" because its partition \"%s\" is a foreign table",
							RelationGetRelationName(rel),
							RelationGetRelationName(member))));
		check_columns(member, &args, key);
		relation_close(member, NoLock);
	}
	fence_guard_args_check(&args);
	foreach(lc, members)
	{
		Relation	member = relation_open(lfirst_oid(lc), NoLock);

		check_triggers(member, function);
		always = add_guards(always, member, function, true);
		relation_close(member, NoLock);
	}
	relation_close(rel, NoLock);

	create_guards(members, always, function, &args, key);
	PG_RETURN_VOID();
}

/*
 * fence_unprotect(target regclass) returns void
 *
 * Drop all guards of a table of the caller's and of its partitions, whatever
 * their names. None there is worth a notice only, as with DROP ... IF EXISTS:
 * the table is then as the caller wants it.
 */
Datum
fence_unprotect(PG_FUNCTION_ARGS)
{
	Oid			target = required_target(fcinfo);
	Relation	rel;
	Oid			function;
	List	   *guards = NIL;
	StringInfoData sql;
	ListCell   *lc;

	/* What DROP TRIGGER takes, at once, so that no lock is upgraded. */
	rel = fence_target_open(target, AccessExclusiveLock);
	function = fence_guard_function(fcinfo->flinfo->fn_oid);
	fence_target_check_whole(rel, function);

	foreach(lc, fence_target_members(rel, AccessExclusiveLock))
	{
		Relation	member = relation_open(lfirst_oid(lc), NoLock);

		guards = add_guards(guards, member, function, false);
		relation_close(member, NoLock);
	}
	if (guards == NIL)
		ereport(NOTICE,
				(errmsg("table \"%s\" is not protected, skipping",
						RelationGetRelationName(rel))));
	relation_close(rel, NoLock);

	initStringInfo(&sql);
	SPI_connect();
	foreach(lc, guards)
	{
		TableTrigger *guard = (TableTrigger *) lfirst(lc);

		appendStringInfo(&sql, "DROP TRIGGER %s ON %s",
						 quote_identifier(guard->name),
						 qualified_name(guard->relid));
		execute(&sql);
	}
	SPI_finish();
	PG_RETURN_VOID();
}
