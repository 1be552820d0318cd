/*
 * redis_reply.c
 *		What the errors mean that Redis answers with.
 *
 * Rules: the code word decides, not the text, which differs between versions
 * and between Redis and Valkey. Redis 6 hides the code of an error inside a
 * script in the text; so there the text is searched for it. What comes from
 * the wire goes into a message only as one short line of printable ASCII.
 */
#include "postgres.h"

#include "redis_reply.h"

typedef struct ErrorCode
{
	const char *word;
	RedisErrorClass class;
	const char *meaning;
} ErrorCode;

static const ErrorCode codes[] = {
	{"NOSCRIPT", REDIS_SAYS_NOSCRIPT, "the script is not cached"},
	{"LOADING", REDIS_SAYS_LATER, "Redis is loading its data"},
	{"BUSY", REDIS_SAYS_LATER, "Redis is busy with a script"},
	{"MASTERDOWN", REDIS_SAYS_LATER, "Redis is a replica that has lost its master"},
	{"NOREPLICAS", REDIS_SAYS_LATER, "Redis has too few replicas to accept writes"},
	{"OOM", REDIS_SAYS_LATER, "Redis is out of memory"},
	{"MISCONF", REDIS_SAYS_LATER, "Redis accepts no writes because it could not save its data"},
	{"CLUSTERDOWN", REDIS_SAYS_LATER, "the Redis cluster is down"},
	{"TRYAGAIN", REDIS_SAYS_LATER, "the Redis cluster is moving the key"},
	{"DENIED", REDIS_SAYS_LATER, "Redis is in protected mode"},
	{"READONLY", REDIS_SAYS_READONLY, "Redis is a replica"},
	{"MOVED", REDIS_SAYS_MOVED, "the key is on another node of the Redis cluster"},
	{"ASK", REDIS_SAYS_ASK, "the key is on another node of the Redis cluster"},
};

static bool
begins_with(FenceString text, const char *word)
{
	int			len = strlen(word);

	return text.len >= len && memcmp(text.data, word, len) == 0 &&
		(text.len == len || text.data[len] == ' ');
}

/* redis_text_contains: does the word occur anywhere? */
bool
redis_text_contains(FenceString text, const char *word)
{
	int			len = strlen(word);

	for (int i = 0; i + len <= text.len; i++)
		if (memcmp(text.data + i, word, len) == 0)
			return true;
	return false;
}

/* An error that Redis 6 reports of a script: "ERR Error running ... -CODE ..." */
static bool
wraps(FenceString error, const char *word)
{
	char		marked[32];

	if (!begins_with(error, "ERR") ||
		!redis_text_contains(error, "Error running script"))
		return false;
	snprintf(marked, sizeof(marked), "-%s ", word);
	return redis_text_contains(error, marked);
}

/*
 * redis_error_class
 *
 * What to do about an error, and what it means in words.
 */
RedisErrorClass
redis_error_class(FenceString error, const char **meaning)
{
	for (int i = 0; i < lengthof(codes); i++)
		if (begins_with(error, codes[i].word) || wraps(error, codes[i].word))
		{
			*meaning = codes[i].meaning;
			return codes[i].class;
		}
	if (begins_with(error, "ERR") &&
		redis_text_contains(error, "max number of clients"))
	{
		*meaning = "Redis has too many clients";
		return REDIS_SAYS_LATER;
	}
	*meaning = NULL;
	return REDIS_SAYS_FAULT;
}

/* redis_text_safe: one line that can be shown anywhere, with its NUL */
void
redis_text_safe(char *to, int size, FenceString from)
{
	int			len = Min(from.len, size - 1);

	for (int i = 0; i < len; i++)
	{
		if (from.data[i] == '\r' || from.data[i] == '\n')
		{
			len = i;
			break;
		}
		to[i] = from.data[i] >= ' ' && from.data[i] <= '~' ? from.data[i] : '?';
	}
	to[len] = '\0';
}

/*
 * redis_error_raise
 *
 * Raise the fault that an error answer shows: 28P01, 42501, 55000, or LF005.
 */
void
redis_error_raise(const char *server, FenceString error)
{
	char		text[REDIS_MAX_REASON];

	redis_text_safe(text, sizeof(text), error);
	if (begins_with(error, "NOAUTH") || begins_with(error, "WRONGPASS") ||
		begins_with(error, "NOPASS"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PASSWORD),
				 errmsg("Redis server \"%s\" rejected the credentials", server),
				 errhint("Check options \"user\" and \"password\" of the user mapping.")));
	if (begins_with(error, "NOPERM") || wraps(error, "NOPERM") ||
		redis_text_contains(error, "ACL failure in script") ||
		redis_text_contains(error, "can't run this command"))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied by Redis server \"%s\"", server),
				 errdetail("Redis says: %s", text),
				 errhint("Its user needs the commands EVAL, EVALSHA, GET, SET, PTTL, PEXPIRE, DEL and PING on the keys with the prefix.")));
	if (begins_with(error, "WRONGTYPE") || wraps(error, "WRONGTYPE"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("key of the lease on Redis server \"%s\" is not a string", server),
				 errdetail("Somebody uses the key for something else.")));
	if (begins_with(error, "MOVED") || begins_with(error, "ASK"))
		ereport(ERROR,
				(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
				 errmsg("Redis server \"%s\" is a node of a cluster", server),
				 errdetail("Redis says: %s", text),
				 errhint("Set option \"cluster\" of the server to \"on\" to follow its redirections.")));
	ereport(ERROR,
			(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
			 errmsg("Redis server \"%s\" answered with an error", server),
			 errdetail("Redis says: %s", text)));
}
