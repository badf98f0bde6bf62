package hdfstest;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/**
 * Ports of a server that is down and shall come back on them: without this, any connection that a program on this machine makes meanwhile
 * may get one as its own. They are bound, and nobody listens, so that connecting to them is refused.
 */
final class HeldPorts implements AutoCloseable {
  private final List<Socket> sockets = new ArrayList<>();

  HeldPorts(int... ports) throws IOException {
    for (int port : ports) {
      Socket socket = new Socket();
      sockets.add(socket);
      socket.setReuseAddress(true); // connections of the server that is down may linger
      try {
        socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
      } catch (IOException e) {
        close();
        throw new IOException("port " + port + " was taken at once", e);
      }
    }
  }

  /** Lets the ports go, for the server to take. */
  @Override
  public void close() throws IOException {
    for (Socket socket : sockets) {
      socket.close();
    }
    sockets.clear();
  }
}
