/*
 * fence_key.h
 *		How a row of a protected table names its resource.
 */
#ifndef FENCE_KEY_H
#define FENCE_KEY_H

#include "access/htup_details.h"

#include "lockfence.h"

/* Column types that a template can use; domains count as their base type. */
typedef enum FenceKeyType
{
	FENCE_KEY_INT2,
	FENCE_KEY_INT4,
	FENCE_KEY_INT8,
	FENCE_KEY_BOOL,
	FENCE_KEY_DATE,
	FENCE_KEY_TEXT,
	FENCE_KEY_VARCHAR,
	FENCE_KEY_BPCHAR,
	FENCE_KEY_NAME,
	FENCE_KEY_UUID
} FenceKeyType;

/* What identifies one column's value; "data" points into the row or a key. */
typedef struct FenceKeyValue
{
	int64		number;			/* 0 for types made of bytes */
	const char *data;			/* unused when len is 0 */
	int			len;
} FenceKeyValue;

typedef struct FenceKeyColumn
{
	FenceString literal;		/* goes before the column's value */
	char	   *name;

	/* set by fence_fit_columns() */
	AttrNumber	attnum;
	FenceKeyType type;

	FenceKeyValue last;			/* in the row remembered last */
} FenceKeyColumn;

/* A parsed template. It owns all its memory, also that of "last". */
typedef struct FenceKey
{
	FenceString tail;			/* literal after the last column */
	int			ncolumns;
	FenceKeyColumn *columns;
	Datum	   *values;			/* scratch space of fence_key_build_row() */
	bool	   *nulls;
	char		bytes[FENCE_MAX_RESOURCE];	/* data of "last" */
} FenceKey;

typedef enum FenceKeyFault
{
	FENCE_KEY_OK,
	FENCE_KEY_NULL,				/* the column at fault is null */
	FENCE_KEY_EMPTY,
	FENCE_KEY_TOO_LONG
} FenceKeyFault;

/* A resource that was built, without a terminating NUL. */
typedef struct FenceKeyText
{
	int			len;
	int			column;			/* index of the column at fault */
	char		data[FENCE_MAX_RESOURCE];
} FenceKeyText;

/*
 * A user column of a row, as heap_getattr() returns it but without its checks
 * of the number: columns come from the very descriptor that is passed here.
 */
static inline Datum
fence_row_attr(HeapTuple row, AttrNumber attnum, TupleDesc desc, bool *isnull)
{
	Assert(attnum > 0 && attnum <= desc->natts);
	if (likely(attnum <= HeapTupleHeaderGetNatts(row->t_data)))
		return fastgetattr(row, attnum, desc, isnull);
	return heap_getattr(row, attnum, desc, isnull);
}

/* How many bits tell the values of a type apart; 0 if it takes too many. */
static inline int
fence_key_type_bits(FenceKeyType type)
{
	switch (type)
	{
		case FENCE_KEY_INT8:
			return 64;
		case FENCE_KEY_INT4:
		case FENCE_KEY_DATE:
			return 32;
		case FENCE_KEY_INT2:
			return 16;
		case FENCE_KEY_BOOL:
			return 8;
		default:
			return 0;
	}
}

/*
 * fence_key_pack
 *
 * The number of a row, of a key that packs: the same for rows with the same
 * values, another one for rows with others. False if a value is null.
 */
static inline bool
fence_key_pack(const FenceKey *key, HeapTuple row, TupleDesc desc,
			   uint64 *packed)
{
	*packed = 0;
	for (int i = 0; i < key->ncolumns; i++)
	{
		const FenceKeyColumn *column = &key->columns[i];
		int			bits = fence_key_type_bits(column->type);
		bool		isnull;
		Datum		value = fence_row_attr(row, column->attnum, desc, &isnull);

		if (isnull)
			return false;
		if (bits == 64)
			*packed = (uint64) DatumGetInt64(value);
		else
			*packed = *packed << bits |
				((uint64) value & ((UINT64CONST(1) << bits) - 1));
	}
	return true;
}

extern FenceKey *fence_key_parse(const char *resource_template);
extern bool fence_key_type_of(Oid basetype, FenceKeyType *type);
extern const char *fence_key_type_name(FenceKeyType type);

extern FenceKeyFault fence_key_build(const FenceKey *key, const Datum *values,
									 const bool *nulls, FenceKeyText *text);
extern FenceKeyFault fence_key_build_row(const FenceKey *key, HeapTuple row,
										 TupleDesc desc, FenceKeyText *text);

extern bool fence_key_same_row(const FenceKey *key, HeapTuple a, HeapTuple b,
							   TupleDesc desc);
extern bool fence_key_remember(FenceKey *key, HeapTuple row, TupleDesc desc);
extern bool fence_key_packs(const FenceKey *key);
extern bool fence_key_is_remembered(const FenceKey *key, HeapTuple row,
									TupleDesc desc);

#endif							/* FENCE_KEY_H */
