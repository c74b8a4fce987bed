// The one place where the bodies of Asio and of Beast's parser are compiled (BOOST_*_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
