/*
 * fence_spec.c
 *		Specifications of guards, built from trigger arguments and cached.
 *
 * Rules: an entry of the cache stays at its address for the life of the
 * backend, so that triggers can keep a pointer to it. An invalidation only
 * marks it; it is rebuilt, and its old memory freed, when the next row asks
 * for it, and no row is being judged by it then: nothing that judging calls
 * can fire a trigger. A specification is built completely aside and becomes
 * visible with its last assignment, so an error leaves the old one marked.
 *
 * A table can have one working guard only, the last trigger, and so the cache
 * goes by table. What a guard demands depends on the tables, too, that its
 * table is a partition of: rows written through them get their defaults.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "fence_observe.h"
#include "fence_report.h"
#include "fence_spec.h"

static HTAB *specs = NULL;
static MemoryContext specs_context = NULL;
static uint64 invalidations = 0;

static void
mark_invalid(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	FenceSpec  *spec;

	invalidations++;
	hash_seq_init(&status, specs);
	while ((spec = hash_seq_search(&status)) != NULL)
		if (!OidIsValid(relid) || spec->relid == relid ||
			list_member_oid(spec->ancestors, relid))
			spec->valid = false;
}

/*
 * A domain can get a default without any of its tables being touched. Types
 * change often, with each temporary table, so only guards whose token column
 * has a domain are built again.
 */
static void
mark_domains_invalid(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS status;
	FenceSpec  *spec;

	invalidations++;
	hash_seq_init(&status, specs);
	while ((spec = hash_seq_search(&status)) != NULL)
		if (spec->token_domain)
			spec->valid = false;
}

static void
create_cache(void)
{
	HASHCTL		ctl;

	if (specs_context == NULL)
		specs_context = AllocSetContextCreate(CacheMemoryContext,
											  "lockfence guards",
											  ALLOCSET_SMALL_SIZES);
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(FenceSpec);
	ctl.hcxt = specs_context;
	specs = hash_create("lockfence guards by table", 32, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(mark_invalid, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, mark_domains_invalid, (Datum) 0);
}

/* The arguments of a trigger, copied: the relcache may rebuild its own. */
static void
copy_arguments(Relation rel, Oid trigger_oid, int *nargs, char ***argv)
{
	TriggerDesc *triggers = rel->trigdesc;

	*nargs = 0;
	*argv = NULL;
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (trigger->tgoid != trigger_oid)
			continue;
		*nargs = trigger->tgnargs;
		*argv = palloc(sizeof(char *) * Max(trigger->tgnargs, 1));
		for (int j = 0; j < trigger->tgnargs; j++)
			(*argv)[j] = pstrdup(trigger->tgargs[j]);
		return;
	}
}

/*
 * fence_spec_build
 *
 * Build the specification of a guard into *spec; what it keeps is allocated in
 * "context". Arguments that make no sense are an error. That the table does not
 * fit is one too, but is reported at elevel if the guard only observes, and
 * then leaves spec->fits false.
 */
void
fence_spec_build(FenceSpec *spec, Relation rel, Oid trigger_oid,
				 MemoryContext context, int elevel)
{
	int			nargs;
	char	  **argv;
	FenceGuardArgs args;
	FenceMisfit misfit;
	MemoryContext caller;

	memset(spec, 0, sizeof(*spec));
	spec->relid = RelationGetRelid(rel);
	spec->trigger_oid = trigger_oid;
	spec->context = context;
	memset(&args, 0, sizeof(args));

	copy_arguments(rel, trigger_oid, &nargs, &argv);
	if (argv != NULL && nargs == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("guard of table \"%s\" has no arguments",
						RelationGetRelationName(rel)),
				 errhint("Give fence_trigger a resource template, or use fence_protect.")));

	if (nargs > 0)
	{
		fence_guard_args_read(nargs, argv, &args);
		fence_guard_args_check(&args);
		spec->observe = fence_guard_observes(&args);
		spec->by_transaction = fence_guard_by_transaction(&args);
		caller = MemoryContextSwitchTo(context);
		spec->key = fence_key_parse(args.resource);
		MemoryContextSwitchTo(caller);
	}

	spec->fits = fence_fit_guard(rel, trigger_oid, &misfit) &&
		fence_fit_columns(rel, &args, spec->key, &spec->token_attnum, &misfit);
	if (!spec->fits)
		ereport(spec->observe ? elevel : ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg_internal("%s", misfit.message),
				 spec->observe ?
				 errdetail("The guard of table \"%s\" lets all rows pass, since it only observes.",
						   RelationGetRelationName(rel)) :
				 errdetail("Table \"%s\" takes no writes until its guard fits again.",
						   RelationGetRelationName(rel)),
				 errhint("Mend the table, or run fence_protect again.")));
	if (rel->rd_rel->relispartition)
	{
		caller = MemoryContextSwitchTo(context);
		spec->ancestors = get_partition_ancestors(spec->relid);
		MemoryContextSwitchTo(caller);
	}
	spec->packs = spec->fits && fence_key_packs(spec->key);
	spec->token_domain = spec->token_attnum != InvalidAttrNumber &&
		TupleDescAttr(RelationGetDescr(rel), spec->token_attnum - 1)->atttypid != INT8OID;
}

/* Replace an entry of the cache by a new specification. */
static void
rebuild(FenceSpec *spec, Relation rel, Oid trigger_oid)
{
	MemoryContext old_context = spec->context;
	MemoryContext new_context;
	FenceSpec	built;
	uint64		before = invalidations;

	/* Freed with the statement if building fails. */
	new_context = AllocSetContextCreate(CurrentMemoryContext,
										"lockfence guard",
										ALLOCSET_SMALL_SIZES);
	fence_spec_build(&built, rel, trigger_oid, new_context, LOG);
	MemoryContextSetParent(new_context, specs_context);

	fence_memo_drop(&spec->memo);
	*spec = built;
	if (old_context != NULL)
		MemoryContextDelete(old_context);

	/* What changed meanwhile is seen by the next row. */
	spec->valid = invalidations == before;
}

/*
 * fence_spec_get
 *
 * The specification of a guard, from the cache or built now; what building
 * raises, see fence_spec_build(). Good for the current row; for later ones
 * while it is valid.
 */
FenceSpec *
fence_spec_get(Relation rel, Oid trigger_oid)
{
	Oid			relid = RelationGetRelid(rel);
	FenceSpec  *spec;
	bool		found;

	if (specs == NULL)
		create_cache();

	spec = hash_search(specs, &relid, HASH_ENTER, &found);
	if (!found)
	{
		spec->valid = false;
		spec->context = NULL;
		spec->memo = NULL;
		spec->token_domain = false;
		spec->ancestors = NIL;
	}
	if (!spec->valid || spec->trigger_oid != trigger_oid)
		rebuild(spec, rel, trigger_oid);
	return spec;
}

/*
 * fence_spec_row_error
 *
 * Report at elevel that a row has no usable resource; false, if it returns. What
 * is not an error was observed, and is counted.
 */
bool
fence_spec_row_error(const FenceSpec *spec, Relation rel, FenceKeyFault fault,
					 const FenceKeyText *text, int elevel)
{
	const char *table = RelationGetRelationName(rel);
	const char *observed = elevel < ERROR ? FENCE_OBSERVED_PREFIX : "";
	static const int sqlstates[] = {
		[FENCE_KEY_NULL] = ERRCODE_NULL_VALUE_NOT_ALLOWED,
		[FENCE_KEY_EMPTY] = ERRCODE_INVALID_PARAMETER_VALUE,
		[FENCE_KEY_TOO_LONG] = ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	};

	if (fault == FENCE_KEY_OK)
		return true;
	if (elevel < ERROR)
	{
		fence_observed(RelationGetRelid(rel), sqlstates[fault], 0);
		elevel = fence_observe_level();
	}
	switch (fault)
	{
		case FENCE_KEY_OK:
			break;
		case FENCE_KEY_NULL:
			ereport(elevel,
					(errcode(sqlstates[fault]),
					 errmsg("%sresource column \"%s\" of table \"%s\" is null",
							observed, spec->key->columns[text->column].name, table)));
			break;
		case FENCE_KEY_EMPTY:
			ereport(elevel,
					(errcode(sqlstates[fault]),
					 errmsg("%sresource of a row of table \"%s\" is empty",
							observed, table)));
			break;
		case FENCE_KEY_TOO_LONG:
			ereport(elevel,
					(errcode(sqlstates[fault]),
					 errmsg("%sresource of a row of table \"%s\" is too long",
							observed, table),
					 errdetail("A resource can have at most %d bytes.",
							   FENCE_MAX_RESOURCE)));
			break;
	}
	return false;
}
