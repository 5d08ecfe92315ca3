package tour;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** The shared scenarios that a test covers. */
@Retention(RetentionPolicy.RUNTIME)
@interface Covers {
    String[] value();
}
