/*
 * redis_server.c
 *		Looks a Redis server up, by the rights of the current role.
 *
 * Rule: a server object is the only way to name a Redis server. Creating one
 * is what allows connections to it; USAGE is checked at each call, as a SELECT
 * through a foreign table would not need to.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"

#include "compat.h"
#include "redis_server.h"

/* Without a password a role would be whoever the database server is. */
static void
check_password(const RedisServer *server, Oid role)
{
	if (superuser_arg(role) || server->options.password != NULL ||
		!server->options.password_required)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required"),
			 errdetail("Roles that are not superusers must provide a password in the user mapping."),
			 errhint("A superuser can set option \"password_required\" of the user mapping to \"off\".")));
}

/*
 * redis_server_get
 *
 * The server that a lease authority's name means. Raises 42704 if there is
 * none or the role has no user mapping, 42809 if it is not for Redis, 42501
 * without USAGE, 2F003 without a password.
 */
RedisServer *
redis_server_get(const char *name)
{
	RedisServer *result = palloc0(sizeof(RedisServer));
	Oid			role = GetUserId();
	ForeignServer *server = GetForeignServerByName(name, true);
	UserMapping *mapping;

	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("lease authority \"%s\" does not exist", name)));
	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, REDIS_WRAPPER) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a lease authority", name),
				 errdetail("Its foreign-data wrapper is not \"%s\".", REDIS_WRAPPER)));
	if (foreign_server_aclcheck_compat(server->serverid, role, ACL_USAGE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER, server->servername);

	mapping = GetUserMapping(role, server->serverid);
	result->serverid = server->serverid;
	result->umid = mapping->umid;
	result->name = server->servername;
	redis_option_defaults(&result->options);
	redis_option_read(&result->options, server->options);
	redis_option_read(&result->options, mapping->options);
	check_password(result, role);
	return result;
}
