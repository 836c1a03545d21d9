/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One transaction over three objects; dlopen and dlclose while threads execute and change sites. Arguments: two plugins. */
#define _GNU_SOURCE
#include "shared_keys.h"

#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

PATCHPOINT_IMPORT_CALL(shared_job);
PATCHPOINT_IMPORT_VALUE(shared_number, int);
PATCHPOINT_IMPORT_BRANCH(shared_flag);
PATCHPOINT_DECLARE_VALUE(own, int);
PATCHPOINT_DEFINE_VALUE(own, int, 3);
PATCHPOINT_DECLARE_CALL(own_job, long, long);

long plugin_first(long a);

static long negate(long a) { return -a; }
static long twice(long a) { return 2 * a; }
PATCHPOINT_DEFINE_CALL(own_job, twice);

struct plugin {
	void *handle;
	long (*sites)(long);
	int (*own)(int);
	long (*variant)(long, int);
};

static struct plugin load(const char *path)
{
	struct plugin plugin = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
	void *symbol;

	if (!plugin.handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(plugin.handle);
	symbol = dlsym(plugin.handle, "plugin_second");
	memcpy(&plugin.sites, &symbol, sizeof symbol);
	symbol = dlsym(plugin.handle, "plugin_second_own");
	memcpy(&plugin.own, &symbol, sizeof symbol);
	symbol = dlsym(plugin.handle, "plugin_second_variant");
	memcpy(&plugin.variant, &symbol, sizeof symbol);
	CHECK(plugin.sites && plugin.own && plugin.variant);
	return plugin;
}

static size_t objects(void)
{
	struct patchpoint_status status;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	return status.objects;
}

static size_t variants(void)
{
	struct patchpoint_status status;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	return status.variants;
}

static int set_all(long (*job)(long), int number, bool flag)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, shared_job, job);
	patchpoint_txn_set_value(&txn, shared_number, number);
	patchpoint_txn_set_branch(&txn, shared_flag, flag);
	patchpoint_txn_set_value(&txn, own, number);
	return patchpoint_txn_commit(&txn);
}

static void check(const struct plugin *plugin, long expected)
{
	CHECK_EQUAL(shared_sites(4), expected);
	CHECK_EQUAL(plugin_first(4), expected);
	if (plugin)
		CHECK_EQUAL(plugin->sites(4), expected);
}

static bool stop;

static void *execute(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long seen = shared_sites(4), flag = seen & 1;

		CHECK(flag == 0 || flag == 1);
		plugin_first(4);
	}
	return unused;
}

static void *change(void *unused)
{
	for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++)
		CHECK_EQUAL(set_all(i & 1 ? negate : twice, i & 127, i & 1), 0);
	return unused;
}

static int name_site(const struct patchpoint_site_info *info, void *longest)
{
	Dl_info file;

	/* A visitor may ask the loader. */
	dladdr(info->address, &file);
	*(size_t *)longest = strlen(info->name) + strlen(info->object) + strlen(info->state);
	return 0;
}

/* Uses every function of the library while objects come and go: none may wait for the loader with the library's lock held. */
static void *use_library(void *unused)
{
	static const struct patchpoint_alternative alternatives[] = {{0, (patchpoint_function)negate}};
	struct patchpoint_status status;
	struct patchpoint_txn txn;
	size_t longest;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		CHECK_EQUAL(patchpoint_site_iterate(name_site, &longest), 0);
		CHECK_EQUAL(patchpoint_status(&status), 0);
		CHECK_EQUAL(patchpoint_init(), 0);
		CHECK_EQUAL(patchpoint_choose(&patchpoint_key_own_job, alternatives, 1, PATCHPOINT_CPU_ALL), 0);
		CHECK_EQUAL(patchpoint_key_set(&patchpoint_key_own_job, (uintptr_t)twice), 0);
		patchpoint_txn_begin(&txn);
		patchpoint_txn_set_value(&txn, own, 3);
		CHECK_EQUAL(patchpoint_txn_abort(&txn), 0);
		patchpoint_ops_add(1);
		CHECK(patchpoint_registry_get());
		(void)patchpoint_cpu_features();
	}
	return unused;
}

/* The program's two functions are far from the plugins: the first plugin has a stub for each; the second's are gone. */
static void check_stubs(void)
{
	struct patchpoint_status status;
	const struct patchpoint_stubs *page;
	size_t orphans = 0;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	CHECK(status.stubs <= 2);
	for (page = patchpoint_registry_get()->stubs; page; page = page->next)
		orphans += !page->object;
	/* The second plugin was loaded 200 times, wherever there was room, and reused its pages. */
	CHECK(orphans <= 4);
}

/* Facts about the second plugin: the number of sites that are not patched, its own key, and the address of a site. */
struct found {
	size_t data;
	struct patchpoint_key *own;
	const void *site;
};

static int look(const struct patchpoint_site_info *info, void *argument)
{
	struct found *found = argument;

	if (!strstr(info->object, "plugin_second"))
		return 0;
	found->data += strcmp(info->state, "data") == 0;
	found->site = info->address;
	if (strcmp(info->key->name, "own") == 0)
		found->own = (struct patchpoint_key *)info->key;
	return 0;
}

static struct found look_at_second(void)
{
	struct found found = {0, NULL, NULL};

	CHECK_EQUAL(patchpoint_site_iterate(look, &found), 0);
	return found;
}

/* An object's code is gone without the library's knowledge: changes of keys with sites there are refused, others work. */
static void check_without_text(const struct plugin *second)
{
	struct found found = look_at_second();
	char line[512];
	unsigned long start = 0, end = 0, site = (unsigned long)found.site;
	FILE *maps = fopen("/proc/self/maps", "r");
	void *text, *away;

	if (!NATIVE)
		return;
	CHECK(maps && found.site);
	while (!(start <= site && site < end))
		CHECK(fgets(line, sizeof line, maps) && sscanf(line, "%lx-%lx", &start, &end) == 2);
	fclose(maps);
	memcpy(&text, &start, sizeof text);
	away = mmap(NULL, end - start, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mremap(text, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, away) == away);
	/* Keeps the address range, so that no mapping of the library's goes there. */
	CHECK(mmap(text, end - start, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == text);
	CHECK_EQUAL(set_all(twice, 2, true), -EFAULT);
	CHECK_EQUAL(patchpoint_init(), -EFAULT);
	check(NULL, -40000 + 10);
	CHECK_EQUAL(patchpoint_set_value(own, 11), 0);
	CHECK_EQUAL(patchpoint_value(own), 11);
	CHECK(mremap(away, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, text) == text);
	CHECK_EQUAL(set_all(twice, 2, true), 0);
	check(second, 80021);
	CHECK_EQUAL(dlclose(second->handle), 0);
}

int main(int count, char **arguments)
{
	struct found found;
	pthread_t threads[3];
	struct plugin second;

	CHECK_EQUAL(count, 2);
	check(NULL, 40120);
	CHECK_EQUAL(objects(), NATIVE ? 2 : 0);
	/* The second plugin is loaded before anything is patched, changed with the other two objects, and closed. */
	second = load(arguments[1]);
	CHECK_EQUAL(objects(), NATIVE ? 3 : 0);
	check(&second, 40120);
	CHECK_EQUAL(set_all(negate, 7, true), 0);
	check(&second, -40000 + 71);
	CHECK_EQUAL(patchpoint_value(own), 7);
	CHECK_EQUAL(second.own(0), 5);
	CHECK_EQUAL(second.own(6), 6);
	CHECK_EQUAL(patchpoint_value(own), 7);
	/* A function of the plugin's follows the keys of both objects, and is forgotten with the plugin. */
	CHECK_EQUAL(second.variant(3, -1), 311);
	CHECK_EQUAL(second.variant(3, 2), 321);
	CHECK_EQUAL(patchpoint_set_branch(shared_flag, false), 0);
	CHECK_EQUAL(second.variant(3, -1), 320);
	CHECK_EQUAL(variants(), 1);
	/* Users of an imported branch are its origin's. */
	CHECK_EQUAL(patchpoint_set_branch(shared_flag, false), 0);
	CHECK_EQUAL(patchpoint_branch_inc(shared_flag), 0);
	CHECK_EQUAL(patchpoint_branch_users(shared_flag), 1);
	check(&second, -40000 + 71);
	CHECK_EQUAL(patchpoint_set_branch(shared_flag, false), -EBUSY);
	CHECK_EQUAL(patchpoint_branch_dec(shared_flag), 0);
	check(&second, -40000 + 70);
	CHECK_EQUAL(dlclose(second.handle), 0);
	CHECK_EQUAL(objects(), NATIVE ? 2 : 0);
	CHECK_EQUAL(set_all(twice, 9, false), 0);
	check(NULL, 80090);
	CHECK_EQUAL(variants(), 0);
	/* Loaded after patchpoint_init, the plugin is patched by its constructor, to the present values. */
	CHECK_EQUAL(patchpoint_init(), 0);
	second = load(arguments[1]);
	CHECK_EQUAL(second.variant(4, -1), 410);
	check(&second, 80090);
	found = look_at_second();
	CHECK_EQUAL(found.data, 0);
	CHECK_EQUAL(dlclose(second.handle), 0);
	if (VALUE_SITES)
		CHECK_EQUAL(patchpoint_key_set(found.own, 6), -EFAULT);

	CHECK_EQUAL(pthread_create(&threads[0], NULL, execute, NULL), 0);
	CHECK_EQUAL(pthread_create(&threads[1], NULL, change, NULL), 0);
	CHECK_EQUAL(pthread_create(&threads[2], NULL, use_library, NULL), 0);
	for (int i = 0; i < 200; i++) {
		second = load(arguments[1]);
		CHECK_EQUAL(second.own(50 + i), 50 + i);
		second.sites(4);
		CHECK_EQUAL(second.variant(4, i % 3) / 10, 40 + i % 3);
		CHECK_EQUAL(dlclose(second.handle), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	CHECK_EQUAL(set_all(negate, 1, false), 0);
	check(NULL, -40000 + 10);
	check_stubs();
	second = load(arguments[1]);
	check_without_text(&second);
	return 0;
}
