/*
 * fence_key.c
 *		Templates, and the resource that they make of a row.
 *
 * Rules: a resource depends on the values alone, never on a setting of the
 * session. Building and comparing allocate nothing unless a value is toasted.
 * The row remembered last is copied into the key, so that it stays comparable
 * whatever happened to its memory.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/uuid.h"

#include "compat.h"
#include "fence_key.h"

/* By FenceKeyType. The names are stored in triggers: never change them. */
static const struct
{
	Oid			oid;
	const char *name;
}			key_types[] = {
	[FENCE_KEY_INT2] = {INT2OID, "int2"},
	[FENCE_KEY_INT4] = {INT4OID, "int4"},
	[FENCE_KEY_INT8] = {INT8OID, "int8"},
	[FENCE_KEY_BOOL] = {BOOLOID, "bool"},
	[FENCE_KEY_DATE] = {DATEOID, "date"},
	[FENCE_KEY_TEXT] = {TEXTOID, "text"},
	[FENCE_KEY_VARCHAR] = {VARCHAROID, "varchar"},
	[FENCE_KEY_BPCHAR] = {BPCHAROID, "bpchar"},
	[FENCE_KEY_NAME] = {NAMEOID, "name"},
	[FENCE_KEY_UUID] = {UUIDOID, "uuid"},
};

/*
 * fence_key_type_of
 *
 * Find how values of a base type are written; false if templates cannot use it.
 */
bool
fence_key_type_of(Oid basetype, FenceKeyType *type)
{
	for (int i = 0; i < lengthof(key_types); i++)
	{
		if (key_types[i].oid == basetype)
		{
			*type = (FenceKeyType) i;
			return true;
		}
	}
	return false;
}

/*
 * fence_key_type_name
 *
 * Name of a type as it is stored among a trigger's arguments.
 */
const char *
fence_key_type_name(FenceKeyType type)
{
	return key_types[type].name;
}

static void
template_error(const char *resource_template, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid resource template \"%s\"", resource_template),
			 errdetail_internal("%s", detail),
			 errhint("Write columns as {column}, and literal braces as {{ and }}.")));
}

/*
 * fence_key_parse
 *
 * Parse a template into memory of the current context. An ill-formed or empty
 * one is an error, and so is one whose literal text alone is too long.
 */
FenceKey *
fence_key_parse(const char *resource_template)
{
	FenceKey   *key = palloc0(sizeof(FenceKey));
	int			capacity = 0;
	char	   *literals;		/* text of all literals, one after the other */
	char	   *start;
	char	   *end;
	const char *p;

	if (resource_template[0] == '\0')
		template_error(resource_template, "The template is empty.");

	for (p = resource_template; *p; p++)
		capacity += (*p == '{');
	key->columns = palloc0(sizeof(FenceKeyColumn) * Max(capacity, 1));
	key->values = palloc0(sizeof(Datum) * Max(capacity, 1));
	key->nulls = palloc0(sizeof(bool) * Max(capacity, 1));
	literals = palloc(strlen(resource_template) + 1);

	start = end = literals;
	for (p = resource_template; *p;)
	{
		const char *brace;
		FenceKeyColumn *column;

		if (*p != '{' && *p != '}')
		{
			*end++ = *p++;
			continue;
		}
		if (p[1] == p[0])
		{
			*end++ = *p;
			p += 2;
			continue;
		}
		if (*p == '}')
			template_error(resource_template,
						   "A closing brace has no opening brace.");

		brace = p + 1 + strcspn(p + 1, "{}");
		if (*brace != '}')
			template_error(resource_template,
						   "An opening brace has no closing brace.");
		if (brace == p + 1)
			template_error(resource_template, "Braces name no column.");

		column = &key->columns[key->ncolumns++];
		column->literal.data = start;
		column->literal.len = end - start;
		column->name = pnstrdup(p + 1, brace - (p + 1));
		start = end;
		p = brace + 1;
	}
	key->tail.data = start;
	key->tail.len = end - start;

	if (end - literals > FENCE_MAX_RESOURCE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("resource template is too long"),
				 errdetail("A resource can have at most %d bytes.",
						   FENCE_MAX_RESOURCE)));
	return key;
}

/*
 * key_value
 *
 * What identifies a value, without copying it; false if it has to be detoasted
 * first.
 */
static inline bool
key_value(FenceKeyType type, Datum datum, FenceKeyValue *value)
{
	value->number = 0;
	value->data = NULL;
	value->len = 0;

	switch (type)
	{
		case FENCE_KEY_INT2:
			value->number = DatumGetInt16(datum);
			return true;
		case FENCE_KEY_INT4:
			value->number = DatumGetInt32(datum);
			return true;
		case FENCE_KEY_INT8:
			value->number = DatumGetInt64(datum);
			return true;
		case FENCE_KEY_BOOL:
			value->number = DatumGetBool(datum);
			return true;
		case FENCE_KEY_DATE:
			value->number = DatumGetDateADT(datum);
			return true;
		case FENCE_KEY_UUID:
			value->data = (const char *) DatumGetUUIDP(datum)->data;
			value->len = UUID_LEN;
			return true;
		case FENCE_KEY_NAME:
			value->data = NameStr(*DatumGetName(datum));
			value->len = strnlen(value->data, NAMEDATALEN);
			return true;
		case FENCE_KEY_TEXT:
		case FENCE_KEY_VARCHAR:
		case FENCE_KEY_BPCHAR:
			{
				struct varlena *text = (struct varlena *) DatumGetPointer(datum);

				if (VARATT_IS_EXTERNAL(text) || VARATT_IS_COMPRESSED(text))
					return false;
				value->data = VARDATA_ANY(text);
				value->len = VARSIZE_ANY_EXHDR(text);
				if (type == FENCE_KEY_BPCHAR)
					value->len = bpchartruelen(VARDATA_ANY(text), value->len);
				return true;
			}
	}
	return false;				/* keep compiler quiet */
}

static inline bool
values_equal(const FenceKeyValue *a, const FenceKeyValue *b)
{
	return a->number == b->number && a->len == b->len &&
		(a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Append to the resource; false if it gets too long. */
static inline bool
append(FenceKeyText *text, const char *data, int len)
{
	if (len > FENCE_MAX_RESOURCE - text->len)
		return false;
	if (len > 0)
		memcpy(text->data + text->len, data, len);
	text->len += len;
	return true;
}

static bool
append_date(FenceKeyText *text, DateADT date)
{
	struct pg_tm tm;
	char		buf[MAXDATELEN + 1];

	if (DATE_NOT_FINITE(date))
		EncodeSpecialDate(date, buf);
	else
	{
		memset(&tm, 0, sizeof(tm));
		j2date(date + POSTGRES_EPOCH_JDATE,
			   &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
		EncodeDateOnly(&tm, USE_ISO_DATES, buf);
	}
	return append(text, buf, strlen(buf));
}

static bool
append_uuid(FenceKeyText *text, const unsigned char *data)
{
	static const char hex[] = "0123456789abcdef";
	char		buf[2 * UUID_LEN + 4];
	int			len = 0;

	for (int i = 0; i < UUID_LEN; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			buf[len++] = '-';
		buf[len++] = hex[data[i] >> 4];
		buf[len++] = hex[data[i] & 0x0F];
	}
	return append(text, buf, len);
}

/* Append a value that key_value() took apart. */
static bool
append_value(FenceKeyText *text, FenceKeyType type, const FenceKeyValue *value)
{
	char		buf[32];

	switch (type)
	{
		case FENCE_KEY_INT2:
		case FENCE_KEY_INT4:
		case FENCE_KEY_INT8:
			return append(text, buf, pg_lltoa(value->number, buf));
		case FENCE_KEY_BOOL:
			return value->number ? append(text, "true", 4) : append(text, "false", 5);
		case FENCE_KEY_DATE:
			return append_date(text, (DateADT) value->number);
		case FENCE_KEY_UUID:
			return append_uuid(text, (const unsigned char *) value->data);
		case FENCE_KEY_TEXT:
		case FENCE_KEY_VARCHAR:
		case FENCE_KEY_BPCHAR:
		case FENCE_KEY_NAME:
			return append(text, value->data, value->len);
	}
	return false;				/* keep compiler quiet */
}

/* Append a toasted value, fetching it only if it can fit. */
static bool
append_toasted(FenceKeyText *text, FenceKeyType type, Datum datum)
{
	struct varlena *plain;
	FenceKeyValue value;
	bool		fits;

	/* Padding does not count, so the size of char(n) says nothing. */
	if (type != FENCE_KEY_BPCHAR &&
		toast_raw_datum_size(datum) - VARHDRSZ > FENCE_MAX_RESOURCE)
		return false;

	plain = pg_detoast_datum((struct varlena *) DatumGetPointer(datum));
	(void) key_value(type, PointerGetDatum(plain), &value);
	fits = append_value(text, type, &value);
	pfree(plain);
	return fits;
}

/*
 * fence_key_build
 *
 * Build the resource of the column values given, in the template's order.
 * Whoever calls words the fault; text->column then says which column it was.
 */
FenceKeyFault
fence_key_build(const FenceKey *key, const Datum *values, const bool *nulls,
				FenceKeyText *text)
{
	text->len = 0;
	for (int i = 0; i < key->ncolumns; i++)
	{
		const FenceKeyColumn *column = &key->columns[i];
		FenceKeyValue value;

		text->column = i;
		if (nulls[i])
			return FENCE_KEY_NULL;
		if (!append(text, column->literal.data, column->literal.len))
			return FENCE_KEY_TOO_LONG;
		if (key_value(column->type, values[i], &value)
			? !append_value(text, column->type, &value)
			: !append_toasted(text, column->type, values[i]))
			return FENCE_KEY_TOO_LONG;
	}
	if (!append(text, key->tail.data, key->tail.len))
		return FENCE_KEY_TOO_LONG;
	return text->len > 0 ? FENCE_KEY_OK : FENCE_KEY_EMPTY;
}

/*
 * fence_key_build_row
 *
 * Build the resource of a row of the table that the key was fitted to.
 */
FenceKeyFault
fence_key_build_row(const FenceKey *key, HeapTuple row, TupleDesc desc,
					FenceKeyText *text)
{
	for (int i = 0; i < key->ncolumns; i++)
		key->values[i] = fence_row_attr(row, key->columns[i].attnum, desc,
										&key->nulls[i]);
	return fence_key_build(key, key->values, key->nulls, text);
}

/* One column's value in a row; false if it is null or toasted. */
static inline bool
row_value(const FenceKeyColumn *column, HeapTuple row, TupleDesc desc,
		  FenceKeyValue *value)
{
	bool		isnull;
	Datum		datum = fence_row_attr(row, column->attnum, desc, &isnull);

	return !isnull && key_value(column->type, datum, value);
}

/*
 * fence_key_same_row
 *
 * Do two rows certainly have the same resource? Nulls and toasted values make
 * the answer "no", which only costs the caller a look at the resources.
 */
bool
fence_key_same_row(const FenceKey *key, HeapTuple a, HeapTuple b,
				   TupleDesc desc)
{
	for (int i = 0; i < key->ncolumns; i++)
	{
		FenceKeyValue value_a;
		FenceKeyValue value_b;

		if (!row_value(&key->columns[i], a, desc, &value_a) ||
			!row_value(&key->columns[i], b, desc, &value_b) ||
			!values_equal(&value_a, &value_b))
			return false;
	}
	return true;
}

/*
 * fence_key_remember
 *
 * Keep a copy of what identifies the row, to compare later rows with. Returns
 * false, and remembers nothing useful, if a value is toasted. The resource of
 * the row must have been built before: that proves that the copy fits.
 */
bool
fence_key_remember(FenceKey *key, HeapTuple row, TupleDesc desc)
{
	char	   *free_bytes = key->bytes;

	for (int i = 0; i < key->ncolumns; i++)
	{
		FenceKeyColumn *column = &key->columns[i];
		FenceKeyValue value;

		if (!row_value(column, row, desc, &value))
			return false;
		if (value.len > 0)
		{
			Assert(value.len <= key->bytes + sizeof(key->bytes) - free_bytes);
			memcpy(free_bytes, value.data, value.len);
			value.data = free_bytes;
			free_bytes += value.len;
		}
		column->last = value;
	}
	return true;
}

/*
 * fence_key_is_remembered
 *
 * Does the row have the resource of the row remembered last? The caller knows
 * whether one was remembered.
 */
bool
fence_key_is_remembered(const FenceKey *key, HeapTuple row, TupleDesc desc)
{
	for (int i = 0; i < key->ncolumns; i++)
	{
		const FenceKeyColumn *column = &key->columns[i];
		FenceKeyValue value;

		if (!row_value(column, row, desc, &value) ||
			!values_equal(&value, &column->last))
			return false;
	}
	return true;
}

/* fence_key_packs: do a row's values fit into one number? */
bool
fence_key_packs(const FenceKey *key)
{
	int			bits = 0;

	for (int i = 0; i < key->ncolumns; i++)
	{
		if (fence_key_type_bits(key->columns[i].type) == 0)
			return false;
		bits += fence_key_type_bits(key->columns[i].type);
	}
	return bits <= 64;
}
