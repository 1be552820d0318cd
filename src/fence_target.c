/*
 * fence_target.c
 *		Which tables can be protected, by whom, and where their guards are.
 *
 * Rule: ownership is checked before any lock is waited for, and again under
 * the lock. A guard is known by its function, never by its name alone.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fence_target.h"

static void
check_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!object_ownercheck_compat(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * fence_target_open
 *
 * Lock and open a relation of any kind that the current user owns; an error if
 * there is none.
 */
Relation
fence_target_open(Oid relid, LOCKMODE lockmode)
{
	Relation	rel;

	check_owner(relid);
	rel = try_relation_open(relid, lockmode);
	check_owner(relid);
	if (rel == NULL)
		elog(ERROR, "could not open relation with OID %u", relid);
	return rel;
}

/*
 * fence_target_check_kind
 *
 * Raise an error unless the relation is a table that can be protected.
 */
void
fence_target_check_kind(Relation rel)
{
	const char *name = RelationGetRelationName(rel);
	char	   *schema = get_namespace_name(RelationGetNamespace(rel));

	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot protect relation \"%s\"", name),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind)));

	if (IsSystemRelation(rel) || strcmp(schema, "information_schema") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot protect system table \"%s\"", name)));

	if (strcmp(schema, LOCKFENCE_SCHEMA) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot protect table \"%s\" of schema \"%s\"",
						name, schema),
				 errdetail("The schema is reserved for lockfence itself.")));

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot protect temporary table \"%s\"", name),
				 errdetail("Only its own session writes to a temporary table.")));

	if (rel->rd_rel->relkind == RELKIND_RELATION &&
		find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot protect table \"%s\" because it has inheritance children",
						name),
				 errdetail("Its triggers do not fire for rows of the children."),
				 errhint("Use partitions, or protect tables that have no children.")));
}

/*
 * fence_target_check_whole
 *
 * Raise an error if the relation is a partition whose guard is a clone of its
 * parent's: that one can only be changed together with the parent.
 */
void
fence_target_check_whole(Relation rel, Oid function)
{
	Trigger    *guard = fence_guard_find(rel, function);
	char	   *parent;

	if (guard == NULL || !guard->tgisclone)
		return;

	parent = get_rel_name(get_partition_parent(RelationGetRelid(rel), true));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change the protection of partition \"%s\" alone",
					RelationGetRelationName(rel)),
			 errdetail("It is protected together with its parent \"%s\".", parent),
			 errhint("Change the protection of \"%s\", or detach the partition first.",
					 parent)));
}

/*
 * fence_target_members
 *
 * The relation and all its partitions and sub-partitions, locked: OIDs, the
 * relation first. The current user must own them all.
 */
List *
fence_target_members(Relation rel, LOCKMODE lockmode)
{
	List	   *members;
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(RelationGetRelid(rel));

	members = find_all_inheritors(RelationGetRelid(rel), lockmode, NULL);
	foreach(lc, members)
		check_owner(lfirst_oid(lc));
	return members;
}

/*
 * fence_guard_function
 *
 * OID of fence_trigger(), which lives in the schema of its sibling, the
 * function that is being called.
 */
Oid
fence_guard_function(Oid sibling)
{
	Oid			function;

	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum("fence_trigger"),
							   PointerGetDatum(buildoidvector(NULL, 0)),
							   ObjectIdGetDatum(get_func_namespace(sibling)));
	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function fence_trigger() does not exist in schema \"%s\"",
						get_namespace_name(get_func_namespace(sibling)))));
	return function;
}

/*
 * fence_guard_find
 *
 * The row guard of a table, or NULL. It points into the relation's cache entry
 * and is good until the next look at a catalog. Of several, the one that fires
 * last is the one that counts.
 */
Trigger *
fence_guard_find(Relation rel, Oid function)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = triggers ? triggers->numtriggers - 1 : -1; i >= 0; i--)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (trigger->tgfoid == function && TRIGGER_FOR_ROW(trigger->tgtype))
			return trigger;
	}
	return NULL;
}
