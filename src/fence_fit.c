/*
 * fence_fit.c
 *		Compares a guard with the table it guards: columns, token column, and
 *		the other triggers.
 *
 * Rule: nothing here raises what it finds. fence_protect refuses with the
 * SQLSTATE of the finding; a guard that is already there refuses every write
 * with object_not_in_prerequisite_state and the same message.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "fence_fit.h"

static bool does_not_fit(FenceMisfit *misfit, int sqlstate, const char *hint,
						 const char *format,...) pg_attribute_printf(4, 5);

/* Fill in a finding; always false, to be returned at once. */
static bool
does_not_fit(FenceMisfit *misfit, int sqlstate, const char *hint,
			 const char *format,...)
{
	StringInfoData message;
	int			needed;

	initStringInfo(&message);
	do
	{
		va_list		args;

		va_start(args, format);
		needed = appendStringInfoVA(&message, format, args);
		va_end(args);
		if (needed > 0)
			enlargeStringInfo(&message, needed);
	} while (needed > 0);

	misfit->sqlstate = sqlstate;
	misfit->message = message.data;
	misfit->hint = hint ? pstrdup(hint) : NULL;
	return false;
}

/* A user column by name, or NULL. */
static Form_pg_attribute
find_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att;
	}
	return NULL;
}

/* Find one column of the template and see whether it can name resources. */
static bool
fit_key_column(Relation rel, FenceKeyColumn *column, FenceMisfit *misfit)
{
	Form_pg_attribute att = find_column(rel, column->name);

	if (att == NULL)
		return does_not_fit(misfit, ERRCODE_UNDEFINED_COLUMN, NULL,
							"column \"%s\" of table \"%s\" does not exist",
							column->name, RelationGetRelationName(rel));
	if (att->attgenerated != '\0')
		return does_not_fit(misfit, ERRCODE_FEATURE_NOT_SUPPORTED,
							"Use the columns that it is generated from.",
							"column \"%s\" of table \"%s\" cannot name a resource because it is generated",
							column->name, RelationGetRelationName(rel));

	column->attnum = att->attnum;
	if (!fence_key_type_of(getBaseType(att->atttypid), &column->type))
		return does_not_fit(misfit, ERRCODE_DATATYPE_MISMATCH,
							"Resource columns can be smallint, integer, bigint, text, varchar, char, name, uuid, boolean, date, or domains over these.",
							"column \"%s\" of table \"%s\" cannot name a resource because it has type %s",
							column->name, RelationGetRelationName(rel),
							format_type_be(att->atttypid));
	return true;
}

/* Compare the types found with those that fence_protect saw, if it left any. */
static bool
fit_types(Relation rel, const char *types, const FenceKey *key,
		  FenceMisfit *misfit)
{
	for (int i = 0; i < key->ncolumns; i++)
	{
		const char *now = fence_key_type_name(key->columns[i].type);
		int			len = strcspn(types, ",");

		if (len != strlen(now) || strncmp(types, now, len) != 0)
			return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
								NULL,
								"column \"%s\" of table \"%s\" changed its type from %.*s to %s",
								key->columns[i].name,
								RelationGetRelationName(rel), len, types, now);
		types += len;
		if (*types == ',')
			types++;
	}
	return true;
}

/* Does a column have a default other than NULL, its own or its domain's? */
static bool
has_default(Relation rel, AttrNumber attnum)
{
	Node	   *expr = build_column_default(rel, attnum);

	expr = strip_implicit_coercions(expr);
	return expr != NULL &&
		!(IsA(expr, Const) && ((Const *) expr)->constisnull);
}

/*
 * The same for the tables that a partition belongs to: rows written through
 * them get their defaults.
 */
static bool
ancestor_has_default(Relation rel, const char *name)
{
	ListCell   *lc;
	bool		found = false;

	if (!rel->rd_rel->relispartition)
		return false;
	foreach(lc, get_partition_ancestors(RelationGetRelid(rel)))
	{
		Relation	ancestor = table_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_attribute att = find_column(ancestor, name);

		found = found || (att != NULL && has_default(ancestor, att->attnum));
		table_close(ancestor, AccessShareLock);
	}
	return found;
}

/* Is a column part of the table's partition key, or of its parents'? */
static bool
in_partition_key(Relation rel, AttrNumber attnum)
{
	Bitmapset  *column =
		bms_make_singleton(attnum - FirstLowInvalidHeapAttributeNumber);

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE &&
		has_partition_attrs(rel, column, NULL))
		return true;

	if (rel->rd_rel->relispartition)
	{
		Bitmapset  *used = NULL;

		pull_varattnos((Node *) RelationGetPartitionQual(rel), 1, &used);
		return bms_overlap(column, used);
	}
	return false;
}

/* Find the token column and see whether it can carry tokens. */
static bool
fit_token_column(Relation rel, const char *name, const FenceKey *key,
				 AttrNumber *attnum, FenceMisfit *misfit)
{
	const char *table = RelationGetRelationName(rel);
	Form_pg_attribute att = find_column(rel, name);

	if (att == NULL)
		return does_not_fit(misfit, ERRCODE_UNDEFINED_COLUMN, NULL,
							"token column \"%s\" of table \"%s\" does not exist",
							name, table);
	*attnum = att->attnum;
	for (int i = 0; i < key->ncolumns; i++)
		if (key->columns[i].attnum == att->attnum)
			return does_not_fit(misfit, ERRCODE_INVALID_PARAMETER_VALUE, NULL,
								"token column \"%s\" of table \"%s\" cannot be part of the resource template",
								name, table);
	if (getBaseType(att->atttypid) != INT8OID)
		return does_not_fit(misfit, ERRCODE_DATATYPE_MISMATCH,
							"A token column must be bigint or a domain over it.",
							"token column \"%s\" of table \"%s\" has type %s",
							name, table, format_type_be(att->atttypid));
	if (att->attgenerated != '\0')
		return does_not_fit(misfit, ERRCODE_FEATURE_NOT_SUPPORTED, NULL,
							"token column \"%s\" of table \"%s\" is generated",
							name, table);
	if (att->attidentity != '\0')
		return does_not_fit(misfit, ERRCODE_FEATURE_NOT_SUPPORTED, NULL,
							"token column \"%s\" of table \"%s\" is an identity column",
							name, table);
	if (has_default(rel, att->attnum))
		return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
							"Drop the default: it would show a token that no writer gave.",
							"token column \"%s\" of table \"%s\" has a default",
							name, table);
	if (ancestor_has_default(rel, name))
		return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
							"Drop the default: it would show a token that no writer gave.",
							"token column \"%s\" of a partitioned table that \"%s\" belongs to has a default",
							name, table);
	if (in_partition_key(rel, att->attnum))
		return does_not_fit(misfit, ERRCODE_FEATURE_NOT_SUPPORTED, NULL,
							"token column \"%s\" of table \"%s\" is part of a partition key",
							name, table);
	return true;
}

/*
 * fence_fit_columns
 *
 * Find the columns that the arguments name, by name, and complete the key with
 * them. On success *token_attnum is InvalidAttrNumber if there is no token
 * column. May raise only what reading the catalogs raises.
 */
bool
fence_fit_columns(Relation rel, const FenceGuardArgs *args, FenceKey *key,
				  AttrNumber *token_attnum, FenceMisfit *misfit)
{
	for (int i = 0; i < key->ncolumns; i++)
		if (!fit_key_column(rel, &key->columns[i], misfit))
			return false;

	if (args->types != NULL && !fit_types(rel, args->types, key, misfit))
		return false;

	*token_attnum = InvalidAttrNumber;
	return args->token_column == NULL ||
		fit_token_column(rel, args->token_column, key, token_attnum, misfit);
}

/*
 * fence_fit_order
 *
 * The guard must be the last BEFORE ROW trigger: a later one could change the
 * row after it was judged.
 */
bool
fence_fit_order(Relation rel, const char *trigger_name, FenceMisfit *misfit)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_BEFORE(trigger->tgtype) &&
			trigger->tgenabled != TRIGGER_DISABLED &&
			strcmp(trigger->tgname, trigger_name) > 0)
			return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
								"Triggers fire in the order of their names: rename that one so that it fires before the guard.",
								"trigger \"%s\" of table \"%s\" fires after the guard \"%s\" and could change the row",
								trigger->tgname, RelationGetRelationName(rel),
								trigger_name);
	}
	return true;
}

/*
 * fence_fit_guard
 *
 * Is the guard itself what it has to be, a BEFORE ROW trigger for every
 * INSERT, UPDATE and DELETE, and the last one?
 */
bool
fence_fit_guard(Relation rel, Oid trigger_oid, FenceMisfit *misfit)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];
		const char *fault = NULL;

		if (trigger->tgoid != trigger_oid)
			continue;
		if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
			fault = "is on a temporary table";
		else if (!TRIGGER_FOR_ROW(trigger->tgtype) ||
				 !TRIGGER_FOR_BEFORE(trigger->tgtype))
			fault = "does not fire before each row";
		else if (!TRIGGER_FOR_INSERT(trigger->tgtype) ||
				 !TRIGGER_FOR_UPDATE(trigger->tgtype) ||
				 !TRIGGER_FOR_DELETE(trigger->tgtype))
			fault = "does not fire for each of INSERT, UPDATE and DELETE";
		else if (trigger->tgqual != NULL)
			fault = "has a WHEN condition";
		else if (trigger->tgnattr > 0)
			fault = "fires only for an UPDATE OF some columns";

		if (fault != NULL)
			return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
								NULL,
								"guard \"%s\" of table \"%s\" %s",
								trigger->tgname, RelationGetRelationName(rel),
								fault);
		return fence_fit_order(rel, trigger->tgname, misfit);
	}

	return does_not_fit(misfit, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, NULL,
						"guard of table \"%s\" does not exist any more",
						RelationGetRelationName(rel));
}
