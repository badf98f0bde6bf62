package hdfstest;

import java.io.IOException;
import java.net.BindException;
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
  private static final int TRIES = 250; // 5 s

  private final List<Socket> sockets = new ArrayList<>();

  HeldPorts(int... ports) throws IOException, InterruptedException {
    for (int port : ports) {
      hold(port);
    }
  }

  /** Tries again for a while: a selector closes a socket that listened only after its server said that it stopped. */
  private void hold(int port) throws IOException, InterruptedException {
    for (int left = TRIES; ; left--) {
      Socket socket = new Socket();
      socket.setReuseAddress(true); // connections of the server that is down may linger
      try {
        socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        sockets.add(socket);
        return;
      } catch (BindException e) {
        socket.close();
        if (left == 0) {
          close();
          throw new IOException("port " + port + " is still taken after its server stopped", e);
        }
      }
      Thread.sleep(20);
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
