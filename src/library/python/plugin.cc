// cella-python.so: CPython through its stable ABI, so that one build serves every Python from 3.9 on. The interpreter
// belongs to the process: it gets no signal handlers, and it is never finalised. One thread of ours starts it, is its
// main thread, and opens sessions; it never runs their code.
//
// Where the application finalises its interpreter, Python ends this thread with pthread_exit() in a call of Python's.
// That unwinds the stack, and the unwinder that is linked into this file aborts in functions which have something to
// clean up. Hence this file is compiled without exceptions, and its thread is not a std::thread.
#define Py_LIMITED_API 0x03090000
#include "library/embedded/plugin.h"

#include <Python.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

namespace {

// Gives the function that opens a session on a socket.
constexpr const char* kBoot = R"(
def boot(packages, runners, version):
    import os, platform, sys
    known = sys.modules.get("cella")
    if known is not None and known.__version__ != version:
        raise ImportError("this process has imported the Python package cella %s, and libcella is %s: use the same version"
                          % (known.__version__, version))
    if known is None:
        sys.path.insert(0, packages)
    try:
        import cella._guest
        if not any(os.path.isdir(os.path.join(each, "cella_runner")) for each in cella._guest.__path__):
            cella._guest.__path__.append(runners)
        import cella._inprocess.embedded
    finally:
        if known is None:
            sys.path.remove(packages)
    return cella._inprocess.embedded.serve, platform.python_version(), sys.prefix
)";

// Of the process, like the interpreter. Never destroyed, since its thread runs until the process ends.
struct Plugin {
  std::mutex mutex;
  std::condition_variable changed;
  cella_python_options options = {};
  bool begun = false;
  bool started = false;
  std::string error, version, prefix;
  std::deque<int> sockets;
};

Plugin& State() {
  static auto* state = new Plugin;
  return *state;
}

std::string TextOf(PyObject* object) {
  PyObject* text = object == nullptr ? nullptr : PyObject_Str(object);
  PyObject* bytes = text == nullptr ? nullptr : PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
  const char* content = bytes == nullptr ? nullptr : PyBytes_AsString(bytes);
  std::string copy = content == nullptr ? "" : content;
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  return copy;
}

// Of the exception that is set, which is cleared.
std::string TakeError() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  std::string text = TextOf(value);
  if (text.empty()) text = TextOf(type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyErr_Clear();
  return text.empty() ? "the interpreter gave no reason" : text;
}

// A process that is no Python has the locale that its application chose.
void Initialize(const char* program) {
  const char* current = setlocale(LC_CTYPE, nullptr);
  const std::string locale = current == nullptr ? "C" : current;
  // The way that follows (PyInitConfig) begins with Python 3.14. The interpreter keeps the name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  if (wchar_t* name = Py_DecodeLocale(program, nullptr)) Py_SetProgramName(name);
#pragma GCC diagnostic pop
  // Python's module for signals takes SIGINT when it is loaded, whatever it was told.
  struct sigaction interrupt;
  const bool known = sigaction(SIGINT, nullptr, &interrupt) == 0;
  Py_InitializeEx(0);
  Py_XDECREF(PyImport_ImportModule("signal"));
  PyErr_Clear();
  if (known) (void)sigaction(SIGINT, &interrupt, nullptr);
  (void)setlocale(LC_CTYPE, locale.c_str());
}

// With the GIL. The function that opens sessions, or null with an exception.
PyObject* Boot(const cella_python_options& options, std::string* version, std::string* prefix) {
  PyObject* names = PyDict_New();
  PyObject* code = names == nullptr ? nullptr : Py_CompileString(kBoot, "<cella>", Py_file_input);
  PyObject* builtins = code == nullptr ? nullptr : PyImport_ImportModule("builtins");
  PyObject *ran = nullptr, *answer = nullptr, *serve = nullptr;
  if (builtins != nullptr && PyDict_SetItemString(names, "__builtins__", builtins) == 0) {
    ran = PyEval_EvalCode(code, names, names);
  }
  PyObject* boot = ran == nullptr ? nullptr : PyDict_GetItemString(names, "boot");
  if (boot != nullptr) {
    answer = PyObject_CallFunction(boot, "sss", options.packages, options.runners, options.version);
  }
  if (answer != nullptr) {
    serve = PyTuple_GetItem(answer, 0);
    Py_XINCREF(serve);
    *version = TextOf(PyTuple_GetItem(answer, 1));
    *prefix = TextOf(PyTuple_GetItem(answer, 2));
  }
  Py_XDECREF(answer);
  Py_XDECREF(ran);
  Py_XDECREF(builtins);
  Py_XDECREF(code);
  Py_XDECREF(names);
  return serve;
}

// With the GIL.
void OpenSession(PyObject* serve, int socket) {
  PyObject* opened = PyObject_CallFunction(serve, "i", socket);
  if (opened == nullptr) (void)TakeError();
  Py_XDECREF(opened);
}

void* Body(void*) {
  Plugin& plugin = State();
  std::string error, version, prefix;
  const bool is_new = Py_IsInitialized() == 0;
  if (is_new) Initialize(plugin.options.program);
  // The thread's state, kept for good: an interpreter that was finalised can make none, and ends threads that have one.
  (void)PyGILState_Ensure();
  PyObject* serve = Boot(plugin.options, &version, &prefix);
  if (serve == nullptr) error = TakeError();
  PyThreadState* state = PyEval_SaveThread();
  std::unique_lock lock(plugin.mutex);
  plugin.error = std::move(error);
  plugin.version = std::move(version);
  plugin.prefix = std::move(prefix);
  plugin.started = true;
  plugin.changed.notify_all();
  while (serve != nullptr) {
    plugin.changed.wait(lock, [&] { return !plugin.sockets.empty(); });
    const int socket = plugin.sockets.front();
    plugin.sockets.pop_front();
    lock.unlock();
    PyEval_RestoreThread(state);
    OpenSession(serve, socket);
    state = PyEval_SaveThread();
    lock.lock();
  }
  return nullptr;
}

// 0, or why there is none.
int StartThread(const sigset_t& signals) {
  sigset_t before;
  (void)pthread_sigmask(SIG_SETMASK, &signals, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, nullptr, Body, nullptr);
  if (failed == 0) (void)pthread_detach(thread);
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return failed;
}

}  // namespace

#define CELLA_PLUGIN extern "C" __attribute__((visibility("default")))

CELLA_PLUGIN char* cella_python_start(const cella_python_options* options) {
  Plugin& plugin = State();
  std::unique_lock lock(plugin.mutex);
  if (!std::exchange(plugin.begun, true)) {
    plugin.options = *options;  // what it refers to is read before the thread has started
    if (const int failed = StartThread(options->signals)) {
      plugin.error = std::string("start a thread: ") + strerror(failed);
      plugin.started = true;
    }
  }
  plugin.changed.wait(lock, [&] { return plugin.started; });
  return plugin.error.empty() ? nullptr : strdup(plugin.error.c_str());
}

CELLA_PLUGIN const char* cella_python_version() { return State().version.c_str(); }
CELLA_PLUGIN const char* cella_python_prefix() { return State().prefix.c_str(); }

CELLA_PLUGIN void cella_python_serve(int socket) {
  Plugin& plugin = State();
  const std::scoped_lock lock(plugin.mutex);
  plugin.sockets.push_back(socket);
  plugin.changed.notify_all();
}
