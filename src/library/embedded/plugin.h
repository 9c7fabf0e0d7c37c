/* What libcella calls in cella-python.so, the plugin that uses CPython through its stable ABI. The interpreter's
 * symbols are global before the plugin is loaded. C, since the two are separate binaries. */
#pragma once

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cella_python_options {
  const char* program;  /* sys.executable of a new interpreter */
  const char* packages; /* the directory that holds the package `cella` */
  const char* runners;  /* the directory that holds `cella_runner` */
  const char* version;  /* of libcella, which the package must have */
  sigset_t signals;     /* the mask of the threads that run code */
};

/* Starts the interpreter, unless the process has one, and the thread that opens sessions. Blocks meanwhile. Null, or a
 * sentence to be freed by free(). Calls after the first answer what the first did. Never undone. */
char* cella_python_start(const struct cella_python_options* options);

/* What the started interpreter calls itself, as "3.11.2" and its sys.prefix. */
const char* cella_python_version(void);
const char* cella_python_prefix(void);

/* Opens a session on the socket, which is taken over. Returns at once; a session that cannot be opened closes it. */
void cella_python_serve(int socket);

#ifdef __cplusplus
}
#endif
