// Finalizers: bench/programs/finalizers.c on Java, with finalize() or a Cleaner. Usage: java Finalizers finalizer|cleaner THREADS SECONDS.
// Choose the collector and the heap on java's command line: -XX:+UseG1GC (or UseParallelGC, UseZGC) -Xmx2g. Prints one line of JSON.
import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

public final class Finalizers {
    static final AtomicLong finalized = new AtomicLong();
    static volatile boolean stop;
    // Run by one thread in either case, so a plain field counts.
    static long own;

    static void count() {
        if (++own % 16 == 0) {
            finalized.lazySet(own);
        }
    }

    // Two words of its own: 32 bytes with the header.
    static class Plain {
        long first;
        long second;
    }

    static final class Finalizable extends Plain {
        @Override
        @SuppressWarnings({"deprecation", "removal"})
        protected void finalize() {
            count();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length != 3 || !(arguments[0].equals("finalizer") || arguments[0].equals("cleaner"))) {
            System.err.println("usage: java Finalizers finalizer|cleaner THREADS SECONDS");
            System.exit(2);
        }
        boolean cleaners = arguments[0].equals("cleaner");
        int threads = Integer.parseInt(arguments[1]);
        double seconds = Double.parseDouble(arguments[2]);
        Cleaner cleaner = Cleaner.create();
        // A line of the cache for each.
        AtomicLongArray made = new AtomicLongArray(threads * 8);
        for (int index = 0; index < threads; index++) {
            int place = index * 8;
            Thread thread = new Thread(() -> {
                long count = 0;
                while (!stop) {
                    for (int turn = 0; turn < 1000; turn++) {
                        if (cleaners) {
                            cleaner.register(new Plain(), Finalizers::count);
                        } else {
                            new Finalizable();
                        }
                    }
                    count += 1000;
                    made.lazySet(place, count);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        long began = System.nanoTime();
        long most = 0;
        while (System.nanoTime() - began < seconds * 1e9) {
            Thread.sleep(10);
            long done = finalized.get();
            most = Math.max(most, sum(made) - done);
        }
        long done = finalized.get();
        long all = sum(made);
        double lasted = (System.nanoTime() - began) * 1e-9;
        System.out.printf(
            "{\"program\": \"finalizers\", \"what\": \"%s\", \"threads\": %d, \"seconds\": %.2f, \"constructed_per_ms\": %.0f, \"finalized_per_ms\": %.0f, "
                + "\"in_flight_millions\": %.3f, \"most_in_flight_millions\": %.3f, \"library_version\": \"%s\", \"ok\": %s}%n",
            arguments[0], threads, lasted, all / lasted * 1e-3, done / lasted * 1e-3, (all - done) * 1e-6, most * 1e-6, System.getProperty("java.version"), done > 0);
        System.out.flush();
        Runtime.getRuntime().halt(done > 0 ? 0 : 1);
    }

    static long sum(AtomicLongArray made) {
        long sum = 0;
        for (int place = 0; place < made.length(); place += 8) {
            sum += made.get(place);
        }
        return sum;
    }
}
