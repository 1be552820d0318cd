/*
 * fence_guard_args.c
 *		Reads and writes the arguments of a guard trigger.
 *
 *	fence_trigger('template'[, 'token_column'[, 'option=value'...]])
 *
 * An empty token column means none. Options: present=column|transaction,
 * mode=enforce|observe, firing=origin|always, types=int8,text,... The last two
 * are written by fence_protect: with "firing" an audit notices that a guard
 * does not fire any more as it should, with "types" a guard that a column was
 * retyped.
 *
 * Rule: reading never fails, so that views can show a broken guard; checking
 * is a step of its own.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "fence_guard_args.h"

/* If "arg" sets the option, return its value, else NULL. */
static const char *
option_value(const char *arg, const char *option)
{
	size_t		len = strlen(option);

	return strncmp(arg, option, len) == 0 && arg[len] == '=' ?
		arg + len + 1 : NULL;
}

/*
 * fence_guard_args_read
 *
 * Take trigger arguments apart; the result points into them.
 */
void
fence_guard_args_read(int nargs, char **argv, FenceGuardArgs *args)
{
	memset(args, 0, sizeof(*args));

	if (nargs > 0)
		args->resource = argv[0];
	if (nargs > 1 && argv[1][0] != '\0')
		args->token_column = argv[1];
	for (int i = 2; i < nargs; i++)
	{
		const char *value;

		if ((value = option_value(argv[i], "present")) != NULL)
			args->present = value;
		else if ((value = option_value(argv[i], "mode")) != NULL)
			args->mode = value;
		else if ((value = option_value(argv[i], "firing")) != NULL)
			args->firing = value;
		else if ((value = option_value(argv[i], "types")) != NULL)
			args->types = value;
		else if (args->unknown == NULL)
			args->unknown = argv[i];
	}
	fence_guard_args_default(args);
}

/*
 * fence_guard_args_default
 *
 * Fill in present, mode and firing as far as they were not given.
 */
void
fence_guard_args_default(FenceGuardArgs *args)
{
	if (args->present == NULL)
		args->present = args->token_column != NULL ?
			FENCE_PRESENT_COLUMN : FENCE_PRESENT_TRANSACTION;
	if (args->mode == NULL)
		args->mode = FENCE_MODE_ENFORCE;
	if (args->firing == NULL)
		args->firing = FENCE_FIRING_ORIGIN;
}

/* fence_guard_observes: violations are only counted and logged */
bool
fence_guard_observes(const FenceGuardArgs *args)
{
	return strcmp(args->mode, FENCE_MODE_OBSERVE) == 0;
}

/* fence_guard_by_transaction: a token in the row shows nothing */
bool
fence_guard_by_transaction(const FenceGuardArgs *args)
{
	return strcmp(args->present, FENCE_PRESENT_TRANSACTION) == 0;
}

/* fence_guard_fires_always: was declared to fire for replicated changes, too */
bool
fence_guard_fires_always(const FenceGuardArgs *args)
{
	return strcmp(args->firing, FENCE_FIRING_ALWAYS) == 0;
}

/*
 * fence_guard_args_check
 *
 * Raise an error unless the options and their words are ones we know,
 * and present = 'column' has a column. The template and the columns have their
 * own checks.
 */
void
fence_guard_args_check(const FenceGuardArgs *args)
{
	if (args->unknown != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown guard option \"%s\"", args->unknown),
				 errhint("Options are \"present\", \"mode\", \"firing\" and \"types\", each followed by \"=\" and a value.")));

	if (!fence_guard_by_transaction(args) &&
		strcmp(args->present, FENCE_PRESENT_COLUMN) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"present\": \"%s\"", args->present),
				 errhint("Available values: \"column\", \"transaction\".")));

	if (!fence_guard_observes(args) &&
		strcmp(args->mode, FENCE_MODE_ENFORCE) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"mode\": \"%s\"", args->mode),
				 errhint("Available values: \"enforce\", \"observe\".")));

	if (!fence_guard_fires_always(args) &&
		strcmp(args->firing, FENCE_FIRING_ORIGIN) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"firing\": \"%s\"", args->firing),
				 errhint("Available values: \"origin\", \"always\".")));

	if (!fence_guard_by_transaction(args) && args->token_column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("present \"column\" needs a token column"),
				 errhint("Name a token column, or use present \"transaction\" with fence_check.")));
}

/*
 * fence_guard_args_write
 *
 * Append the arguments to a CREATE TRIGGER statement, quoted. The key must
 * have been fitted to the table: its types become the "types" option.
 */
void
fence_guard_args_write(StringInfo sql, const FenceGuardArgs *args,
					   const FenceKey *key)
{
	StringInfoData types;

	appendStringInfo(sql, "%s, %s, 'present=%s', 'mode=%s'",
					 quote_literal_cstr(args->resource),
					 quote_literal_cstr(args->token_column ? args->token_column : ""),
					 args->present, args->mode);
	if (fence_guard_fires_always(args))
		appendStringInfo(sql, ", 'firing=%s'", args->firing);
	if (key->ncolumns == 0)
		return;

	initStringInfo(&types);
	for (int i = 0; i < key->ncolumns; i++)
		appendStringInfo(&types, "%s%s", i > 0 ? "," : "",
						 fence_key_type_name(key->columns[i].type));
	appendStringInfo(sql, ", 'types=%s'", types.data);
	pfree(types.data);
}
