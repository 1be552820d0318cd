/*
 * fence_rule_test.c
 *		All combinations of state and offer, judged without a server.
 *
 * Rule: expected verdicts are written down, as letters, and never computed
 * here. Each matrix is tried for tokens at every boundary where arithmetic or
 * a client's number type could go wrong.
 *
 * Prints TAP. Build: cc -I src -I `pg_config --includedir-server` this file
 * and src/fence_rule.c.
 */
#include "postgres.h"

#include "fence_rule.h"

/* The server's own needs its library. */
#undef printf

#define TOP PG_INT64_MAX

static const int64 fences[] = {
	1,
	2,
	INT64CONST(2147483647),		/* 2^31 - 1 */
	INT64CONST(2147483648),
	INT64CONST(4294967296),		/* 2^32 */
	INT64CONST(9007199254740991),	/* 2^53 - 1 */
	INT64CONST(9007199254740992),
	INT64CONST(9007199254740993),
	TOP - 1,
	TOP
};

static const FenceString nobody = {NULL, 0};
static const FenceString alice = {"alice", 5};
static const FenceString bob = {"bobby", 5};
static const FenceString alic = {"alice", 4};	/* a prefix of alice */
static const FenceString loud = {"ALICE", 5};

static int	tests = 0;
static int	failures = 0;

static char
letter(FenceVerdict verdict)
{
	switch (verdict)
	{
		case FENCE_ACCEPT:
			return 'A';
		case FENCE_RAISE:
			return 'R';
		case FENCE_STALE:
			return 'S';
		case FENCE_UNISSUED:
			return 'U';
		case FENCE_CONFLICT:
			return 'C';
		case FENCE_MISSING:
			return 'M';
	}
	return '?';
}

static void
expect(char expected, FenceVerdict got, const char *what, int64 fence,
	   int64 token, const char *offer)
{
	bool		ok = letter(got) == expected;

	tests++;
	if (!ok)
		failures++;
	printf("%s %d - %s %lld: token %lld%s is %c\n", ok ? "ok" : "not ok", tests,
		   what, (long long) fence, (long long) token, offer, expected);
	if (!ok)
		printf("# got %c\n", letter(got));
}

/*
 * A stored fence. One letter for each offer of the token below (by one, and
 * the lowest), of the equal token by nobody, the same holder, another of the
 * same length, the beginning of the holder's name, the name in capitals, and
 * of the token above (by one, and the highest).
 */
typedef struct StoredCase
{
	const char *what;
	FenceKind	kind;
	const FenceString *holder;
	bool		released;
	const char *below;			/* by nobody, same, other */
	const char *equal;			/* by nobody, same, other, prefix, capitals */
	const char *above;			/* by nobody, same, other */
	const char *commit;			/* below, equal, above */
} StoredCase;

static const StoredCase stored[] = {
	{"issued to nobody known,", FENCE_ISSUED, &nobody, false,
	"SSS", "AAAAA", "UUU", "SAU"},
	{"issued to alice,", FENCE_ISSUED, &alice, false,
	"SSS", "AACCC", "UUU", "SAU"},
	{"issued to nobody known and released,", FENCE_ISSUED, &nobody, true,
	"SSS", "SSSSS", "UUU", "SSU"},
	{"issued to alice and released,", FENCE_ISSUED, &alice, true,
	"SSS", "SSSSS", "UUU", "SSU"},
	{"external of nobody known,", FENCE_EXTERNAL, &nobody, false,
	"SSS", "AAAAA", "RRR", "SAU"},
	{"external of alice,", FENCE_EXTERNAL, &alice, false,
	"SSS", "AACCC", "RRR", "SAU"},
};

static void
try_stored(const StoredCase *c)
{
	const FenceString *holders[] = {&nobody, &alice, &bob, &alic, &loud};
	const char *names[] = {"", " of alice", " of bobby", " of alic", " of ALICE"};

	for (int f = 0; f < lengthof(fences); f++)
	{
		FenceState	state = {0};
		int64		fence = fences[f];
		int64		below[] = {fence - 1, 1};
		int64		above[] = {fence < TOP ? fence + 1 : TOP, TOP};

		state.kind = c->kind;
		state.token = fence;
		state.holder = *c->holder;
		state.released = c->released;
		/* What belongs to the absent state must not matter. */
		state.accepts_external = f % 2 == 0;
		state.floor = f % 3 == 0 ? TOP : 0;

		for (int i = 0; i < lengthof(below); i++)
		{
			if (fence == 1)
				continue;		/* nothing below is a token */
			for (int h = 0; h < 3; h++)
				expect(c->below[h], fence_judge_offer(&state, below[i], *holders[h]),
					   c->what, fence, below[i], names[h]);
			expect(c->commit[0], fence_judge_commit(&state, below[i]),
				   c->what, fence, below[i], " at commit");
		}

		for (int h = 0; h < 5; h++)
			expect(c->equal[h], fence_judge_offer(&state, fence, *holders[h]),
				   c->what, fence, fence, names[h]);
		expect(c->commit[1], fence_judge_commit(&state, fence),
			   c->what, fence, fence, " at commit");

		for (int i = 0; i < lengthof(above); i++)
		{
			if (fence == TOP)
				continue;		/* nothing is above */
			for (int h = 0; h < 3; h++)
				expect(c->above[h], fence_judge_offer(&state, above[i], *holders[h]),
					   c->what, fence, above[i], names[h]);
			expect(c->commit[2], fence_judge_commit(&state, above[i]),
				   c->what, fence, above[i], " at commit");
		}
	}
}

/* No fence is stored; the floor is what pruning has forgotten. */
typedef struct AbsentCase
{
	const char *what;
	bool		accepts_external;
	char		below;			/* a token below the floor */
	char		equal;
	char		above;
} AbsentCase;

static const AbsentCase absent[] = {
	{"absent, external tokens accepted, floor", true, 'S', 'S', 'R'},
	{"absent, external tokens not accepted, floor", false, 'U', 'U', 'U'},
};

static void
try_absent(const AbsentCase *c)
{
	const FenceString *holders[] = {&nobody, &alice};

	for (int h = 0; h < lengthof(holders); h++)
	{
		const char *name = h == 0 ? "" : " of alice";
		FenceString holder = *holders[h];
		FenceState	state = {0};

		state.kind = FENCE_ABSENT;
		state.accepts_external = c->accepts_external;

		/* Without a floor every token lies above. */
		for (int f = 0; f < lengthof(fences); f++)
			expect(c->above, fence_judge_offer(&state, fences[f], holder),
				   c->what, 0, fences[f], name);

		for (int f = 0; f < lengthof(fences); f++)
		{
			int64		floor = fences[f];

			state.floor = floor;
			if (floor > 1)
			{
				expect(c->below, fence_judge_offer(&state, floor - 1, holder),
					   c->what, floor, floor - 1, name);
				expect(c->below, fence_judge_offer(&state, 1, holder),
					   c->what, floor, 1, name);
			}
			expect(c->equal, fence_judge_offer(&state, floor, holder),
				   c->what, floor, floor, name);
			if (floor < TOP)
			{
				expect(c->above, fence_judge_offer(&state, floor + 1, holder),
					   c->what, floor, floor + 1, name);
				expect(c->above, fence_judge_offer(&state, TOP, holder),
					   c->what, floor, TOP, name);
			}

			/* Whoever was admitted and finds nothing at commit was pruned. */
			expect('S', fence_judge_commit(&state, floor),
				   c->what, floor, floor, " at commit");
			expect('S', fence_judge_commit(&state, TOP),
				   c->what, floor, TOP, " at commit");
		}
	}
}

int
main(void)
{
	for (int i = 0; i < lengthof(stored); i++)
		try_stored(&stored[i]);
	for (int i = 0; i < lengthof(absent); i++)
		try_absent(&absent[i]);
	printf("1..%d\n", tests);
	return failures == 0 ? 0 : 1;
}
