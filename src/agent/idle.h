// What the agent does in a container that outlives its session: it waits, so that people can enter the container.
#pragma once

namespace cella::agent {

// Kills all other processes. One that the kernel does not let die is left after some seconds.
void EndOthers();

// Until a signal of the engine ("docker stop"); the exit code. Reaps whatever ends meanwhile.
int Idle();

}  // namespace cella::agent
