package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.TreeMap;

/** The commands by name. */
final class Commands {
  /** One command: its arguments by name, its result as it is written in JSON. */
  interface Command {
    Object run(JsonNode args) throws Exception;
  }

  private final Map<String, Command> commands = new TreeMap<>();

  Commands(MiniCluster cluster) {
    NodeCommands.add(commands, cluster);
    NameNodeCommands.add(commands, cluster);
    BlockCommands.add(commands, cluster);
    FileCommands.add(commands, cluster);
    TokenCommands.add(commands, cluster);
  }

  Object run(String name, JsonNode args) throws Exception {
    Command command = commands.get(name);
    if (command == null) {
      throw new IllegalArgumentException("no command " + name + ": known are " + commands.keySet());
    }
    return command.run(args);
  }
}
