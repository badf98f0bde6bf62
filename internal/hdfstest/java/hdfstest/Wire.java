package hdfstest;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The talk with the parent: one JSON object a line in each direction. */
final class Wire {
  static final ObjectMapper JSON = new ObjectMapper().setSerializationInclusion(JsonInclude.Include.NON_NULL);

  private final BufferedReader in;
  private final PrintStream out;

  Wire(InputStream in, PrintStream out) {
    this.in = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
    this.out = out;
  }

  /** The next line, or null when the parent has closed its end or is gone. */
  JsonNode read() throws IOException {
    String line = in.readLine();
    return line == null ? null : JSON.readTree(line);
  }

  void write(Object value) throws IOException {
    String line = JSON.writeValueAsString(value);
    synchronized (out) {
      out.print(line + "\n");
      out.flush();
    }
  }

  void answer(long id, Object result) throws IOException {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", id);
    answer.put("result", result);
    write(answer);
  }

  void refuse(long id, Throwable error) throws IOException {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", id);
    answer.put("class", error.getClass().getName());
    answer.put("error", String.valueOf(error.getMessage()));
    write(answer);
  }
}
