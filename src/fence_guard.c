/*
 * fence_guard.c
 *		SQL entries that look at a guard: fence_resource, lockfence.guard,
 *		lockfence.check_guard and lockfence.above_fence.
 *
 * Rule: nothing here changes anything, and nothing uses the cache of
 * specifications, because converting a value can run code that writes to the
 * very table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fence_result.h"
#include "fence_spec.h"
#include "fence_table.h"
#include "fence_target.h"

PG_FUNCTION_INFO_V1(fence_resource);
PG_FUNCTION_INFO_V1(lockfence_guard);
PG_FUNCTION_INFO_V1(lockfence_check_guard);
PG_FUNCTION_INFO_V1(lockfence_above_fence);

/* Columns of lockfence.guard */
enum
{
	GUARD_RESOURCE,
	GUARD_TOKEN_COLUMN,
	GUARD_PRESENT,
	GUARD_MODE,
	GUARD_FIRING,
	GUARD_COLUMNS
};

/* The text that one JSON scalar gives to an input function; NULL for null. */
static char *
scalar_text(const JsonbValue *value, const char *column)
{
	switch (value->type)
	{
		case jbvNull:
			return NULL;
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("value of column \"%s\" must be a JSON scalar",
							column)));
			return NULL;
	}
}

/* One column's value in a JSON object, as its table would store it. */
static Datum
column_value(Form_pg_attribute att, Jsonb *object)
{
	const char *name = NameStr(att->attname);
	JsonbValue	buffer;
	JsonbValue *value;
	char	   *text;
	Oid			typinput;
	Oid			typioparam;

	value = getKeyJsonValueFromContainer(&object->root, name, strlen(name),
										 &buffer);
	text = value ? scalar_text(value, name) : NULL;
	if (text == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("resource column \"%s\" is null or missing", name)));

	getTypeInputInfo(att->atttypid, &typinput, &typioparam);
	return OidInputFunctionCall(typinput, text, typioparam, att->atttypmod);
}

/*
 * fence_resource(target regclass, row_data jsonb) returns text
 *
 * The resource that the row would have in the protected table. Dates are read
 * as ISO whatever the session's DateStyle says; of ambiguous ones the year has
 * to come first.
 */
Datum
fence_resource(PG_FUNCTION_ARGS)
{
	Relation	rel;
	Trigger    *guard;
	Jsonb	   *object;
	FenceSpec	spec;
	FenceKeyFault fault;
	FenceKeyText resource;
	int			nest_level;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null",
						PG_ARGISNULL(0) ? "target table" : "row data")));
	object = PG_GETARG_JSONB_P(1);
	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("row data must be a JSON object")));

	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	guard = fence_guard_find(rel, fence_guard_function(fcinfo->flinfo->fn_oid));
	if (guard == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is not protected",
						RelationGetRelationName(rel)),
				 errhint("Call fence_protect first.")));
	fence_spec_build(&spec, rel, guard->tgoid, CurrentMemoryContext, ERROR);

	nest_level = NewGUCNestLevel();
	(void) set_config_option("datestyle", "ISO, YMD", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	for (int i = 0; i < spec.key->ncolumns; i++)
	{
		AttrNumber	attnum = spec.key->columns[i].attnum;

		spec.key->values[i] =
			column_value(TupleDescAttr(RelationGetDescr(rel), attnum - 1), object);
		spec.key->nulls[i] = false;
	}
	AtEOXact_GUC(true, nest_level);

	fault = fence_key_build(spec.key, spec.key->values, spec.key->nulls,
							&resource);
	if (fault != FENCE_KEY_OK)
		(void) fence_spec_row_error(&spec, rel, fault, &resource, ERROR);
	relation_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(resource.data, resource.len));
}

/* Is a function the fence_trigger of the extension that "sibling" belongs to? */
static bool
is_guard_function(Oid function, Oid sibling)
{
	Oid			extension = getExtensionOfObject(ProcedureRelationId, sibling);
	char	   *name = get_func_name(function);

	return OidIsValid(extension) && name != NULL &&
		strcmp(name, "fence_trigger") == 0 &&
		getExtensionOfObject(ProcedureRelationId, function) == extension;
}

/* The arguments of a trigger row; they are stored one after the other. */
static char **
trigger_arguments(HeapTuple tuple, TupleDesc desc, int nargs)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, Anum_pg_trigger_tgargs, desc, &isnull);
	char	  **argv = palloc0(sizeof(char *) * Max(nargs, 1));
	char	   *p;

	if (isnull)
		elog(ERROR, "arguments of a trigger are null");
	p = VARDATA_ANY(DatumGetByteaPP(value));
	for (int i = 0; i < nargs; i++)
	{
		argv[i] = pstrdup(p);
		p += strlen(p) + 1;
	}
	return argv;
}

/*
 * lockfence.guard(trigger_oid oid, OUT resource text, OUT token_column name,
 *				   OUT present text, OUT mode text, OUT firing text)
 *
 * The arguments of a guard, with defaults filled in and unchecked, for views.
 * Null if the trigger is no guard of this extension.
 */
Datum
lockfence_guard(PG_FUNCTION_ARGS)
{
	Relation	catalog;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	FenceGuardArgs args;
	FenceResult result;
	bool		found = false;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	catalog = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
				PG_GETARG_DATUM(0));
	scan = systable_beginscan(catalog, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);

		found = is_guard_function(trigger->tgfoid, fcinfo->flinfo->fn_oid);
		if (found)
			fence_guard_args_read(trigger->tgnargs,
								  trigger_arguments(tuple,
													RelationGetDescr(catalog),
													trigger->tgnargs),
								  &args);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();

	fence_result_begin(&result, fcinfo, GUARD_COLUMNS);
	if (args.resource != NULL)
		fence_result_cstring(&result, GUARD_RESOURCE, args.resource);
	if (args.token_column != NULL)
		fence_result_name(&result, GUARD_TOKEN_COLUMN, args.token_column);
	fence_result_cstring(&result, GUARD_PRESENT, args.present);
	fence_result_cstring(&result, GUARD_MODE, args.mode);
	fence_result_cstring(&result, GUARD_FIRING, args.firing);
	return fence_result_end(&result);
}

/*
 * lockfence.check_guard(target regclass, trigger_oid oid) returns void
 *
 * Raises what the guard raises for every write while it does not fit its
 * table, also if it only observes. For the audit.
 */
Datum
lockfence_check_guard(PG_FUNCTION_ARGS)
{
	Relation	rel;
	FenceSpec	spec;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	fence_spec_build(&spec, rel, PG_GETARG_OID(1), CurrentMemoryContext, ERROR);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * lockfence.above_fence(target regclass, trigger_oid oid, row_data record)
 *		returns boolean
 *
 * Does a row of a guarded table carry a token above the fence of its resource?
 * For the audit, which looks at tables of others: nothing here runs code that
 * belongs to a column's type, as casts, operators and input functions do.
 */
Datum
lockfence_above_fence(PG_FUNCTION_ARGS)
{
	Relation	rel;
	FenceSpec	spec;
	HeapTupleHeader header;
	HeapTupleData tuple;
	FenceTable *table;
	FenceRow	row;
	FenceKeyFault fault;
	FenceKeyText text;
	FenceString resource;
	Datum		token = (Datum) 0;
	bool		isnull = true;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	header = PG_GETARG_HEAPTUPLEHEADER(2);
	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (HeapTupleHeaderGetTypeId(header) != rel->rd_rel->reltype)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("row is not of table \"%s\"", RelationGetRelationName(rel))));
	fence_spec_build(&spec, rel, PG_GETARG_OID(1), CurrentMemoryContext, ERROR);

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	if (spec.token_attnum != InvalidAttrNumber)
		token = fence_row_attr(&tuple, spec.token_attnum, RelationGetDescr(rel),
							   &isnull);
	if (isnull)
	{
		relation_close(rel, AccessShareLock);
		PG_RETURN_BOOL(false);
	}

	fault = fence_key_build_row(spec.key, &tuple, RelationGetDescr(rel), &text);
	if (fault != FENCE_KEY_OK)
		(void) fence_spec_row_error(&spec, rel, fault, &text, ERROR);
	resource.data = text.data;
	resource.len = text.len;
	relation_close(rel, AccessShareLock);

	table = fence_table_open(AccessShareLock);
	row.token = 0;
	(void) fence_table_read(table, resource, &row);
	fence_table_close(table);
	PG_RETURN_BOOL(DatumGetInt64(token) > (row.found ? row.token : 0));
}
